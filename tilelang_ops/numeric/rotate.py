"""Rotation of a pair of columns inside kernels, products and sums rounded one by one as in the reference."""

from typing import Any

import tilelang.language as T


def rotated_even(even: Any, odd: Any, cos: Any, sin: Any) -> Any:
    """float32 ``even * cos - odd * sin``."""
    return T.ieee_sub(T.ieee_mul(even, cos), T.ieee_mul(odd, sin))


def rotated_odd(even: Any, odd: Any, cos: Any, sin: Any) -> Any:
    """float32 ``even * sin + odd * cos``."""
    return T.ieee_add(T.ieee_mul(even, sin), T.ieee_mul(odd, cos))
