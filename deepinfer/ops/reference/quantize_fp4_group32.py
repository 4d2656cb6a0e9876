"""Q4/32: e2m1 codes with one power-of-two scale per 32 columns (index queries and keys)."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.e2m1 import pack_e2m1, round_e2m1
from deepinfer.ops.reference.groups import join_groups, split_groups
from deepinfer.ops.reference.power_of_two_scale import encode_e8m0, power_of_two_scale

AMAX_FLOOR = 6.0 * 2.0**-126
LARGEST = 6.0


def quantize_fp4_group32(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize index vectors (spec/model.md 2.3, Q4/32). A group with NaN or Inf gets scale byte 255 (NaN).

    Args:
        x: bf16 or float32 [..., d], d even; a partial last group is allowed.

    Returns:
        packed uint8 [..., d/2] (even column in the low nibble) and scales uint8 [..., ceil(d/32)],
        value = e2m1 * 2^(scale-127).
    """
    groups = split_groups(x, 32)
    scale = power_of_two_scale(groups, floor=AMAX_FLOOR, largest=LARGEST)
    values = round_e2m1(groups / scale)
    return pack_e2m1(join_groups(values, x.shape[-1])), encode_e8m0(scale)
