"""Values of Q4/16e codes."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.e2m1 import decode_e2m1
from deepinfer.ops.reference.e4m3 import decode_e4m3
from deepinfer.ops.reference.groups import join_groups, split_groups


def dequantize_fp4_group16(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """e2m1 * e4m3 scale, exactly.

    Args:
        packed: uint8 [..., d/2].
        scales: uint8 [..., ceil(d/16)], e4m3 bits.

    Returns:
        float32 [..., d].
    """
    groups = split_groups(decode_e2m1(packed), 16)
    return join_groups(groups.mul_(decode_e4m3(scales).unsqueeze(-1)), 2 * packed.shape[-1])
