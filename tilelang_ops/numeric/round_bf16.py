"""One rounding to bf16 inside kernels."""

from typing import Any

import tilelang.language as T


def round_bf16(x: Any) -> Any:
    """float32 `x` rounded to the nearest bf16 value (ties to even), as float32."""
    return T.Cast("float32", T.Cast("bfloat16", x))
