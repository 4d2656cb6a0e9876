"""The first half of the attention's output projection."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.primitive_ops import PrimitiveOps


def rotate_grouped_linear(
    ops: PrimitiveOps,
    heads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    weight: QuantizedWeight,
    *,
    num_groups: int,
    quantize: bool,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """Heads rotated back to positions relative to the query (rounded to their dtype), then `grouped_linear` over groups
    of H / num_groups heads (spec/model.md 4.5).

    Args:
        ops: has `apply_rope` and `grouped_linear`.
        heads: bf16 or float32 [T, H, d].
        cos: float32 [T, r/2].
        sin: float32 [T, r/2].
        weight: [G*R, (H/G)*d].
        num_groups: G.
        quantize: whether the rotated heads pass Q8/32 first.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [T, G*R].
    """
    rotated = ops.apply_rope(heads, cos, sin, inverse=True)
    groups = rotated.view(heads.shape[0], num_groups, heads.shape[1] // num_groups * heads.shape[2])
    return ops.grouped_linear(groups, weight, quantize=quantize, out_dtype=out_dtype)
