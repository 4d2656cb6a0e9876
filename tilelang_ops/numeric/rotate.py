"""Rotation of pairs of columns inside kernels, products and sums rounded one by one as in the reference."""

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.group32 import COLUMNS_A_LANE


def rotated_even(even: Any, odd: Any, cos: Any, sin: Any) -> Any:
    """float32 ``even * cos - odd * sin``."""
    return T.ieee_sub(T.ieee_mul(even, cos), T.ieee_mul(odd, sin))


def rotated_odd(even: Any, odd: Any, cos: Any, sin: Any) -> Any:
    """float32 ``even * sin + odd * cos``."""
    return T.ieee_add(T.ieee_mul(even, sin), T.ieee_mul(odd, cos))


@T.macro
def rotate_lane_back(values: Any, pair: Any, angle: Any, cos: Any, sin: Any, row: Any, first: Any) -> None:
    """Rotates the eight columns that a lane holds by the inverse, rounded to bf16.

    Args:
        values: local bf16 [8], four pairs.
        pair: local float32 [2] for the kernel's use.
        angle: likewise.
        cos: float32 [T, r/2].
        sin: float32 [T, r/2].
        row: of cos and sin.
        first: of the lane's pairs in them.
    """
    for i in T.unroll(COLUMNS_A_LANE // 2):
        angle[0] = cos[row, first + i]
        angle[1] = -sin[row, first + i]
        pair[0] = T.Cast("float32", values[2 * i])
        pair[1] = T.Cast("float32", values[2 * i + 1])
        values[2 * i] = T.Cast("bfloat16", rotated_even(pair[0], pair[1], angle[0], angle[1]))
        values[2 * i + 1] = T.Cast("bfloat16", rotated_odd(pair[0], pair[1], angle[0], angle[1]))
