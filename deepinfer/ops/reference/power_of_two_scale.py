"""Power-of-two scale of a group of values (E8M0), straight from float32 bits."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.constant import constant

_ROUND_UP = constant(0x7FFFFF, torch.int32)
_EXPONENT_FIELD = constant(0x7F800000, torch.int32)


def power_of_two_scale(groups: torch.Tensor, *, floor: float, largest: float) -> torch.Tensor:
    """Smallest power of two that is >= max(amax, floor) * f32(1/largest) for each group.

    The exponent is rounded up from the float32 bits of that float32 product: adding 0x7fffff carries into the
    exponent unless the mantissa is zero (spec/model.md 2.3). A group with NaN or Inf gets Inf, which turns every value
    of the group into NaN when it is divided by the scale, rounded and multiplied again.

    Args:
        groups: float32 [..., group size].
        floor: least amax.
        largest: largest code value (448 for e4m3, 6 for e2m1).

    Returns:
        float32 [..., 1].
    """
    amax = groups.abs().amax(-1, keepdim=True).clamp_min_(floor)
    amax.nan_to_num_(nan=torch.inf, posinf=torch.inf)
    bits = amax.mul_(1.0 / largest).view(torch.int32)
    return bits.add_(_ROUND_UP).bitwise_and_(_EXPONENT_FIELD).view(torch.float32)


def encode_e8m0(scale: torch.Tensor) -> torch.Tensor:
    """uint8 E8M0 bytes [...] of scales [..., 1] made by `power_of_two_scale`; 255 (NaN) for the poisoned ones."""
    return (scale.squeeze(-1).view(torch.int32) >> 23).to(torch.uint8)


def decode_e8m0(scales: torch.Tensor) -> torch.Tensor:
    """float32 2^(byte-127) of uint8 bytes; NaN for 255."""
    return scales.view(torch.float8_e8m0fnu).to(torch.float32)
