"""The number format e4m3 (float8_e4m3fn) inside kernels."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind

_NAN_BITS = 0x7FC00000


def decode_e4m3(code: Any) -> Any:
    """float32 value of e4m3 bits, exactly; 0x7f and 0xff give NaN.

    Args:
        code: integer 0..255.
    """

    def value(code: Any) -> Any:
        # The fields of a float16 of 2^-8 times the value: sign 15, exponent and mantissa 13..7.
        bits = ((code & 0x80) << 8) | ((code & 0x7F) << 7)
        finite = T.Cast("float32", T.reinterpret(T.Cast("uint16", bits), "float16")) * T.float32(256.0)
        return T.if_then_else((code & 0x7F) == 0x7F, T.reinterpret(T.int32(_NAN_BITS), "float32"), finite)

    return bind(T.Cast("int32", code), value)


def encode_e4m3(x: Any) -> Any:
    """int32 bits 0..255 of the nearest e4m3 value of a float32: ties to even, saturating at 448, NaN 0x7f or 0xff.

    Quantizers reach this with |x| < 464 only, where saturating and overflowing conversions agree.
    """

    def code(x: Any) -> Any:
        magnitude = T.reinterpret(x, "int32") & 0x7FFFFFFF
        # Normal values: drop 20 mantissa bits, ties to even, and move the exponent's bias from 127 to 7.
        normal = (magnitude + 0x7FFFF + ((magnitude >> 20) & 1) - (120 << 23)) >> 20
        # Below 2^-6 neighbours are 2^-9 apart: adding 1.5 * 2^14 rounds to a multiple of that (ties to even) in the
        # low mantissa bits.
        shifted = T.ieee_add(T.abs(x), T.float32(1.5 * 2.0**14))
        small = T.reinterpret(shifted, "int32") - 0x46C00000
        finite = T.if_then_else(magnitude < 0x3C800000, small, T.min(normal, 0x7E))
        sign = (T.reinterpret(x, "int32") >> 24) & 0x80
        return T.if_then_else(magnitude > 0x7F800000, 0x7F, finite) | sign

    return bind(x, code)
