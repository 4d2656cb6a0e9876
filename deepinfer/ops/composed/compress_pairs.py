"""Ratio-2 compression: each finished pair of tokens becomes one vector."""

from __future__ import annotations

import torch

from deepinfer.ops.primitive_ops import PrimitiveOps


def compress_pairs(
    ops: PrimitiveOps,
    new: torch.Tensor,
    state: torch.Tensor,
    second: torch.Tensor,
    carried: torch.Tensor,
    act_dtype: torch.dtype,
) -> torch.Tensor:
    """Softmax over a pair's two scores per column, applied to the values (spec/model.md 5).

    Args:
        ops: has `pool_pairs`.
        new: float32 [T, 2, d] (score, value) of each row of the step.
        state: float32 [slots, ring, 2, d] those of earlier steps.
        second: int64 [n] rows that are the second of their pair.
        carried: int64 [n] place of the pair's first in `state`, slot * ring + place; -1: it is the row before.
        act_dtype: bf16 or float32.

    Returns:
        act_dtype [n, d].
    """
    kept = state.flatten(0, 1)[carried.clamp(min=0)]
    first = torch.where((carried >= 0)[:, None, None], kept, new[(second - 1).clamp(min=0)])
    pair = torch.stack((first, new[second]), dim=2)  # [n, (score, value), token, d]
    return ops.pool_pairs(pair[:, 0], pair[:, 1]).to(act_dtype)
