"""Q8/32: e4m3 codes with one power-of-two scale per 32 columns."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.groups import join_groups, split_groups
from deepinfer.ops.reference.power_of_two_scale import encode_e8m0, power_of_two_scale

AMAX_FLOOR = 1e-4
LARGEST = 448.0


def quantize_fp8_group32(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize activations (spec/model.md 2.3, Q8/32). A group with NaN or Inf gets scale byte 255 (NaN).

    Args:
        x: bf16 or float32 [..., d]; a partial last group is allowed.

    Returns:
        codes float8_e4m3fn [..., d] and scales uint8 [..., ceil(d/32)], value = code * 2^(scale-127).
    """
    groups = split_groups(x, 32)
    scale = power_of_two_scale(groups, floor=AMAX_FLOOR, largest=LARGEST)
    codes = (groups / scale).to(torch.float8_e4m3fn)
    return join_groups(codes, x.shape[-1]), encode_e8m0(scale)
