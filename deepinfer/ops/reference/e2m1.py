"""The number format e2m1 (FP4): rounding, packing two codes a byte, decoding."""

from __future__ import annotations

import functools

import torch

from deepinfer.ops.reference.constant import constant

_EXPONENT_FIELD = constant(0x7F800000, torch.int32)
_SHIFT = constant(1.5 * 2.0**22)
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def round_e2m1(x: torch.Tensor) -> torch.Tensor:
    """Nearest e2m1 value of float32 `x`: ties to the even code, saturating at 6, keeping the sign of zero.

    Adding and subtracting 1.5 * 2^23 * step rounds to a multiple of step, the distance of neighbours at |x|: 2^(e-1),
    at least 1/2.
    """
    binade = x.view(torch.int32).bitwise_and(_EXPONENT_FIELD).view(torch.float32)
    shift = binade.clamp_(1.0, 4.0).mul_(_SHIFT)
    return torch.add(x, shift).sub_(shift).clamp_(-6.0, 6.0).copysign_(x)


def pack_e2m1(values: torch.Tensor) -> torch.Tensor:
    """Codes of e2m1 values, two a byte: even column in the low nibble.

    Args:
        values: float32 [..., n], n even, each one an e2m1 value (anything else, NaN included, gives some code).

    Returns:
        uint8 [..., n/2].
    """
    # As float16, value * 2^-14 holds the code's exponent and mantissa in bits 11..9 and its sign in bit 15.
    half = values.mul(2.0**-14).to(torch.float16).view(torch.int16)
    code = ((half >> 9) & 7) | ((half >> 12) & 8)
    return (code[..., 0::2] | (code[..., 1::2] << 4)).to(torch.uint8)


def decode_e2m1(packed: torch.Tensor) -> torch.Tensor:
    """Values of packed codes.

    Args:
        packed: uint8 [..., n/2].

    Returns:
        float32 [..., n].
    """
    pairs = _pair_table(packed.device).index_select(0, packed.reshape(-1).to(torch.int32))
    return pairs.view(torch.float32).view(*packed.shape[:-1], 2 * packed.shape[-1])


@functools.cache
def _pair_table(device: torch.device) -> torch.Tensor:
    """int64 [256]: the two float32 values of every byte, as one 8-byte word, so that a lookup moves both."""
    values = torch.tensor(_MAGNITUDES + tuple(-value for value in _MAGNITUDES), dtype=torch.float32, device=device)
    byte = torch.arange(256, device=device)
    return torch.stack((values[byte & 15], values[byte >> 4]), dim=1).view(torch.int64).view(256)
