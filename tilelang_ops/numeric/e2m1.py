"""The number format e2m1 (FP4) inside kernels."""

from __future__ import annotations

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind


def decode_e2m1(code: Any) -> Any:
    """float32 value of a code, exactly: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.

    Args:
        code: integer 0..15 (the caller takes the nibble of a byte: the even column is the low one).
    """

    def value(code: Any) -> Any:
        # The fields of a float16 of 2^-14 times the value: sign 15, exponent and mantissa 11..9; code 1 is a subnormal.
        bits = ((code & 8) << 12) | ((code & 7) << 9)
        return T.Cast("float32", T.reinterpret(T.Cast("uint16", bits), "float16")) * T.float32(2.0**14)

    return bind(T.Cast("int32", code), value)


def encode_e2m1(x: Any) -> Any:
    """int32 code 0..15 of a float32: nearest, ties to the even code, saturating at 6, the sign of zero kept.

    NaN gives code 0 or 8: the scale of its group says that it is NaN.
    """

    def code(x: Any) -> Any:
        magnitude = T.abs(x)
        above = [magnitude > T.float32(edge) for edge in (0.25, 1.25, 2.5, 5.0)]  # ties go down, to codes 0, 2, 4, 6
        reached = [magnitude >= T.float32(edge) for edge in (0.75, 1.75, 3.5)]  # ties go up, to codes 2, 4, 6
        sign = (T.reinterpret(x, "int32") >> 28) & 8
        total = sign
        for passed in above + reached:
            total = total + T.Cast("int32", passed)
        return total

    return bind(x, code)
