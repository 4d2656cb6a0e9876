"""The gated activation of 32 hidden columns of a row: clamped SwiGLU, routing weight, rounding, Q8/32."""

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind
from tilelang_ops.numeric.e8m0 import decode_e8m0, invert_e8m0, magnitude_bits, scale_byte
from tilelang_ops.numeric.group32 import AMAX_FLOOR, LARGEST


def gated_value(gate: Any, up: Any, weight: Any, limit: Any) -> Any:
    """float32 silu(min(gate, limit)) * clamp(up, -limit, limit) * weight; NaN stays NaN."""

    def value(low: Any) -> Any:
        bounded = T.if_then_else(up > limit, limit, T.if_then_else(up < -limit, -limit, up))
        return low / (T.float32(1.0) + T.exp(-low)) * bounded * weight

    return bind(T.if_then_else(gate > limit, limit, gate), value)


def rounded_value(x: Any, byte: Any) -> Any:
    """float32 that is left of x after Q8/32 with that scale byte."""
    code = T.Cast("float8_e4m3fn", x * invert_e8m0(byte))
    return T.Cast("float32", code) * decode_e8m0(byte)


def group_scale(amax_bits: Any) -> Any:
    """int32 E8M0 byte of a Q8/32 group."""
    return scale_byte(amax_bits, floor=AMAX_FLOOR, largest=LARGEST)


@T.macro
def gate_group(
    result: Any, row: Any, column: Any, up_offset: int, weight: Any, limit: Any, group: Any, amax: Any
) -> None:
    """group f32 [32] = bf16 of silu(min(gate, limit)) * clamp(up, -limit, limit) * weight; amax[0] their largest bits.

    Args:
        result: shared bf16 [rows, columns]: gate at `column`, up at `column + up_offset`.
        row: of it.
        column: first gate column of the group.
        up_offset: distance of the up columns.
        weight: float32 routing weight of the row.
        limit: float32 swiglu_limit.
        group: local float32 [32].
        amax: local int32 [1].
    """
    amax[0] = 0
    for i in T.unroll(32):
        gate = T.Cast("float32", result[row, column + i])
        up = T.Cast("float32", result[row, column + up_offset + i])
        group[i] = T.Cast("float32", T.Cast("bfloat16", gated_value(gate, up, weight, limit)))
        amax[0] = T.max(amax[0], magnitude_bits(group[i]))


@T.macro
def store_codes(group: Any, amax: Any, out: Any, hidden: Any, scales: Any, place: Any, column: Any) -> None:
    """hidden e4m3 and scales uint8: the group's Q8/32 codes and scale byte. `out` is local e4m3 [16]."""
    byte = group_scale(amax[0])
    for part in T.unroll(2):
        for i in T.unroll(16):
            out[i] = T.Cast("float8_e4m3fn", group[part * 16 + i] * invert_e8m0(byte))
        for i in T.vectorized(16):
            hidden[place, column + part * 16 + i] = out[i]
    scales[place, column // 32] = T.Cast("uint8", byte)
