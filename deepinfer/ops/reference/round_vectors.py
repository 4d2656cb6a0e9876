"""The values that are left after a quantizer and its inverse, without the codes in between."""

from __future__ import annotations

import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops.reference.e2m1 import round_e2m1
from deepinfer.ops.reference.e4m3 import round_e4m3
from deepinfer.ops.reference.groups import join_groups, split_groups
from deepinfer.ops.reference.power_of_two_scale import power_of_two_scale
from deepinfer.ops.reference.quantize_fp4_group16 import e4m3_scale
from deepinfer.ops.reference.quantize_fp4_group32 import AMAX_FLOOR as FP4_FLOOR
from deepinfer.ops.reference.quantize_fp8_group32 import AMAX_FLOOR as FP8_FLOOR


def round_vectors(x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
    """Quantize and dequantize; bit-equal to the two ops in turn.

    Args:
        x: bf16 or float32 [..., d].
        rounding: which quantizer; NONE only widens.

    Returns:
        float32 [..., d].
    """
    if rounding is KVRounding.NONE:
        return x.to(torch.float32)
    groups = split_groups(x, 16 if rounding is KVRounding.FP4_GROUP16 else 32)
    if rounding is KVRounding.FP8_GROUP32:
        scale = power_of_two_scale(groups, floor=FP8_FLOOR, largest=448.0)
        values = round_e4m3(groups / scale)
    elif rounding is KVRounding.FP4_GROUP32:
        scale = power_of_two_scale(groups, floor=FP4_FLOOR, largest=6.0)
        values = round_e2m1(groups / scale)
    else:
        scale = e4m3_scale(groups)
        values = round_e2m1(groups / scale)
    return join_groups(values.mul_(scale), x.shape[-1])
