"""The number format e4m3 (float8_e4m3fn): rounding and decoding."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.constant import constant

_EXPONENT_FIELD = constant(0x7F800000, torch.int32)
_SHIFT = constant(1.5 * 2.0**20)
_SEVEN = constant(7, torch.int16)
_NOT_BIT_14, _BIT_14 = constant(-0x4001, torch.int16), constant(0x4000, torch.int16)
_NAN_CARRY = constant(0x80, torch.int16)
_HALF_BIAS = constant(256.0)
_SMALL = 4096  # elements up to which torch's own (slow, unvectorised) conversion is quicker than several calls


def round_e4m3(x: torch.Tensor) -> torch.Tensor:
    """Nearest e4m3 value, ties to even, of float32 `x` with |x| < 464; the same values as a conversion there and back.

    Adding and subtracting 1.5 * 2^23 * step rounds to a multiple of step, the distance of neighbours at |x|: 2^(e-3),
    at least 2^-9.
    """
    if x.numel() <= _SMALL:
        return x.to(torch.float8_e4m3fn).to(torch.float32)
    binade = x.view(torch.int32).bitwise_and(_EXPONENT_FIELD).view(torch.float32)
    shift = binade.clamp_min_(2.0**-6).mul_(_SHIFT)
    return torch.add(x, shift).sub_(shift).copysign_(x)


def decode_e4m3(codes: torch.Tensor) -> torch.Tensor:
    """Values of e4m3 codes, exactly; the NaN codes 0x7f and 0xff give NaN.

    Args:
        codes: float8_e4m3fn or uint8 [...].

    Returns:
        float32 [...].
    """
    if codes.numel() <= _SMALL:
        return codes.view(torch.float8_e4m3fn).to(torch.float32)
    # Moved into the fields of a float16 (sign 15, exponent 13..10, mantissa 9..7) a code is its value times 2^-8.
    half = codes.view(torch.int8).to(torch.int16).bitwise_left_shift_(_SEVEN).bitwise_and_(_NOT_BIT_14)
    half.bitwise_or_(half.add(_NAN_CARRY).bitwise_and_(_BIT_14))  # magnitude 0x7f carries into bit 14: exponent 31, NaN
    return half.view(torch.float16).to(torch.float32).mul_(_HALF_BIAS)
