"""Values of Q8/32 codes."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.e4m3 import decode_e4m3
from deepinfer.ops.reference.groups import join_groups, split_groups
from deepinfer.ops.reference.power_of_two_scale import decode_e8m0


def dequantize_fp8_group32(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """code * 2^(scale-127), exactly.

    Args:
        codes: float8_e4m3fn (or its bits as uint8) [..., d].
        scales: uint8 [..., ceil(d/32)].

    Returns:
        float32 [..., d].
    """
    groups = split_groups(decode_e4m3(codes), 32)
    return join_groups(groups.mul_(decode_e8m0(scales).unsqueeze(-1)), codes.shape[-1])
