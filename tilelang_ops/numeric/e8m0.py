"""Power-of-two scales (E8M0 bytes) inside kernels."""

from __future__ import annotations

import struct
from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.bind import bind

_INF_BITS = 0x7F800000


def decode_e8m0(byte: Any) -> Any:
    """float32 2^(byte-127), exactly: a subnormal for 0, NaN for 255.

    Args:
        byte: integer 0..255.
    """

    def value(byte: Any) -> Any:
        # Bytes 0 and 255 set mantissa bit 22 as well: 2^-127 is subnormal, 255 is NaN. No select: loops stay vectors.
        edge = T.Cast("int32", byte == 0) | T.Cast("int32", byte == 255)
        return T.reinterpret((byte << 23) | (edge << 22), "float32")

    return bind(T.Cast("int32", byte), value)


def invert_e8m0(byte: Any) -> Any:
    """float32 2^(127-byte), what a group is multiplied by before it is rounded; 0 for 255, so that Inf turns to NaN.

    Args:
        byte: integer 1..255, as `scale_byte` makes them.
    """
    return T.reinterpret(T.max(254 - T.Cast("int32", byte), 0) << 23, "float32")


def magnitude_bits(x: Any) -> Any:
    """int32 bits of |x|, ordered like the magnitudes, with NaN above Inf: the maximum over a group is its amax."""
    return T.reinterpret(x, "int32") & 0x7FFFFFFF


def scale_byte(amax_bits: Any, *, floor: float, largest: float) -> Any:
    """int32 E8M0 byte of the smallest power of two >= max(amax, floor) * f32(1/largest); 255 for NaN and Inf.

    The exponent is rounded up from the bits of that float32 product (as the reference's `power_of_two_scale`).

    Args:
        amax_bits: int32, maximum of the group's `magnitude_bits`.
        floor: least amax.
        largest: largest code value (448 for e4m3, 6 for e2m1).
    """
    floor_bits = struct.unpack("<i", struct.pack("<f", floor))[0]
    clamped = T.min(T.max(amax_bits, T.int32(floor_bits)), T.int32(_INF_BITS))
    scaled = T.ieee_mul(T.reinterpret(clamped, "float32"), T.float32(1.0 / largest))
    return (T.reinterpret(scaled, "int32") + 0x7FFFFF) >> 23
