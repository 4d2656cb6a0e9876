"""Q4/16e: e2m1 codes with one e4m3 scale per 16 columns (compressed key=value entries)."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.e2m1 import pack_e2m1, round_e2m1
from deepinfer.ops.reference.e4m3 import round_e4m3
from deepinfer.ops.reference.groups import join_groups, split_groups

AMAX_FLOOR = 6.0 * 2.0**-9


def e4m3_scale(groups: torch.Tensor) -> torch.Tensor:
    """Scale of each group, an e4m3 value: e4m3(min(max(amax, 6 * 2^-9) / 6, 448)), divided, not multiplied by 1/6.

    Args:
        groups: float32 [..., 16].

    Returns:
        float32 [..., 1]; NaN for a group with NaN or Inf.
    """
    amax = groups.abs().amax(-1, keepdim=True).clamp_min_(AMAX_FLOOR)
    amax = torch.where(amax == torch.inf, torch.nan, amax)
    return round_e4m3(amax.div_(6.0).clamp_max_(448.0))


def quantize_fp4_group16(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize compressed entries (spec/model.md 2.3, Q4/16e). A group with NaN or Inf gets a NaN scale.

    Args:
        x: bf16 or float32 [..., d], d even; a partial last group is allowed.

    Returns:
        packed uint8 [..., d/2] (even column in the low nibble) and scales uint8 [..., ceil(d/16)] (e4m3 bits),
        value = e2m1 * scale.
    """
    groups = split_groups(x, 16)
    scale = e4m3_scale(groups)
    values = round_e2m1(groups / scale)
    scale_bits = scale.squeeze(-1).to(torch.float8_e4m3fn).view(torch.uint8)
    return pack_e2m1(join_groups(values, x.shape[-1])), scale_bits
