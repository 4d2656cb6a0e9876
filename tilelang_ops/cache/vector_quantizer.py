"""The three quantizers of cache vectors inside kernels, for threads that hold eight neighbouring columns each.

`rounding` is "fp8_group32", "fp4_group32" or "fp4_group16" everywhere.
"""

from collections.abc import Callable
from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.e2m1 import decode_e2m1, encode_e2m1
from tilelang_ops.numeric.e4m3 import decode_e4m3, encode_e4m3
from tilelang_ops.numeric.e8m0 import decode_e8m0, invert_e8m0, magnitude_bits, scale_byte
from tilelang_ops.numeric.group32 import AMAX_FLOOR, LARGEST

COLUMNS = 8  # of a thread: 16 bytes of bf16; the threads of a group are neighbours in a warp

_FP4_FLOOR, _E4M3_SCALE_FLOOR = 6.0 * 2.0**-126, 6.0 * 2.0**-9


def group_size(rounding: str) -> int:
    """Columns that share a scale."""
    return 16 if rounding == "fp4_group16" else 32


def code_bytes(rounding: str, columns: int) -> int:
    """Bytes of the codes of `columns` columns."""
    return columns if rounding == "fp8_group32" else columns // 2


def vector_bytes(rounding: str, dim: int) -> int:
    """Bytes of a stored vector: codes, then one scale byte per group."""
    return code_bytes(rounding, dim) + dim // group_size(rounding)


def quantizer(rounding: str) -> Callable[..., Any]:
    """A macro ``quantize(values, first, codes, scale)`` that all threads of a warp call together.

    It reads float32 ``values[first : first + 8]`` and writes int32 ``codes[0:8]`` and the group's byte ``scale[0]``.
    Codes and scales are those of the reference's quantizers; a group with NaN or Inf gets the scale NaN.
    """

    @T.macro
    def quantize(values: Any, first: int, codes: Any, scale: Any):
        amax = T.alloc_local((1,), "int32")
        amax[0] = 0
        for i in T.unroll(COLUMNS):
            amax[0] = T.max(amax[0], magnitude_bits(values[first + i]))
        amax[0] = T.max(amax[0], T.shfl_xor(amax[0], 1))
        if group_size(rounding) == 32:
            amax[0] = T.max(amax[0], T.shfl_xor(amax[0], 2))
        scale[0] = _scale(rounding, amax[0])
        for i in T.unroll(COLUMNS):
            codes[i] = _code(rounding, values[first + i], scale[0])

    return quantize


def dequantize(rounding: str, code: Any, scale: Any) -> Any:
    """float32 value of a code (int32) and its group's scale byte (int32), exactly."""
    if rounding == "fp8_group32":
        return decode_e4m3(code) * decode_e8m0(scale)
    return decode_e2m1(code) * (decode_e8m0(scale) if rounding == "fp4_group32" else decode_e4m3(scale))


def packed_byte(rounding: str, codes: Any, index: int) -> Any:
    """Byte `index` of the packed form of a thread's codes; of two e2m1 codes the even column is the low one."""
    if rounding == "fp8_group32":
        return T.Cast("uint8", codes[index])
    return T.Cast("uint8", codes[2 * index] | (codes[2 * index + 1] << 4))


def _scale(rounding: str, amax_bits: Any) -> Any:
    if rounding == "fp8_group32":
        return scale_byte(amax_bits, floor=AMAX_FLOOR, largest=LARGEST)
    if rounding == "fp4_group32":
        return scale_byte(amax_bits, floor=_FP4_FLOOR, largest=6.0)
    amax = T.max(T.reinterpret(amax_bits, "float32"), T.float32(_E4M3_SCALE_FLOOR))
    finite = encode_e4m3(T.min(T.ieee_fdiv(amax, T.float32(6.0)), T.float32(448.0)))
    return T.if_then_else(amax_bits >= 0x7F800000, T.int32(0x7F), finite)


def _code(rounding: str, value: Any, scale: Any) -> Any:
    if rounding == "fp8_group32":
        return encode_e4m3(value * invert_e8m0(scale))
    if rounding == "fp4_group32":
        return encode_e2m1(value * invert_e8m0(scale))
    return encode_e2m1(T.ieee_fdiv(value, decode_e4m3(scale)))
