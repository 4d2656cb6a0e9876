"""Values of Q4/32 codes."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.e2m1 import decode_e2m1
from deepinfer.ops.reference.groups import join_groups, split_groups
from deepinfer.ops.reference.power_of_two_scale import decode_e8m0


def dequantize_fp4_group32(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """e2m1 * 2^(scale-127), exactly.

    Args:
        packed: uint8 [..., d/2].
        scales: uint8 [..., ceil(d/32)].

    Returns:
        float32 [..., d].
    """
    groups = split_groups(decode_e2m1(packed), 32)
    return join_groups(groups.mul_(decode_e8m0(scales).unsqueeze(-1)), 2 * packed.shape[-1])
