"""The scale of a group of 32 columns that four neighbouring lanes hold, eight columns each."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind
from tilelang_ops.numeric.e8m0 import magnitude_bits, scale_byte

COLUMNS_A_LANE = 8
AMAX_FLOOR = 1e-4
LARGEST = 448.0


def fp8_group32_byte(values: Any) -> Any:
    """int32 E8M0 byte of the Q8/32 group of four lanes (lane % 4 = 0..3); every lane of the warp must take part.

    Args:
        values: local buffer [8], bf16 or float32.
    """

    def join(amax: Any, lanes: tuple[int, ...]) -> Any:
        if not lanes:
            return amax
        return bind(T.max(amax, T.shfl_xor(amax, lanes[0])), lambda joined: join(joined, lanes[1:]))

    amax = magnitude_bits(T.Cast("float32", values[0]))
    for i in range(1, COLUMNS_A_LANE):
        amax = T.max(amax, magnitude_bits(T.Cast("float32", values[i])))
    return scale_byte(bind(amax, lambda own: join(own, (1, 2))), floor=AMAX_FLOOR, largest=LARGEST)
