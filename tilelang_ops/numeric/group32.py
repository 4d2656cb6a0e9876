"""Q8/32 of groups of 32 columns that four neighbouring lanes hold, eight columns each."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind
from tilelang_ops.numeric.e8m0 import decode_e8m0, invert_e8m0, magnitude_bits, scale_byte

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


@T.macro
def quantize_lane(values: Any, codes: Any, result: Any, scale: Any, rounded: bool) -> None:
    """Fills `scale` int32 [1], `codes` e4m3 [8] and `result` [8]: the codes, or with `rounded` code * scale in bf16."""
    scale[0] = fp8_group32_byte(values)
    for i in T.vectorized(COLUMNS_A_LANE):
        codes[i] = T.Cast("float8_e4m3fn", T.Cast("float32", values[i]) * invert_e8m0(scale[0]))
    for i in T.vectorized(COLUMNS_A_LANE):
        result[i] = T.Cast("bfloat16", T.Cast("float32", codes[i]) * decode_e8m0(scale[0])) if rounded else codes[i]


@T.macro
def store_lane(row: Any, column: Any, result: Any, scale: Any, out: Any, scales: Any) -> None:
    """Writes eight columns of a row of `out`, and from a group's first lane its byte into `scales`."""
    for i in T.vectorized(COLUMNS_A_LANE):
        out[row, column + i] = result[i]
    if T.get_thread_binding() % 4 == 0:
        scales[row, column // 32] = T.Cast("uint8", scale[0])
