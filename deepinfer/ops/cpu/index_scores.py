"""Scores of compressed entries for every query row."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, as_int64


def index_scores(
    context: cpu.Context,
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: torch.Tensor,
    row_group: torch.Tensor,
    num_visible: torch.Tensor,
    *,
    scale: float,
    round_bf16: bool,
) -> torch.Tensor:
    """See `deepinfer.ops.reference.index_scores`."""
    q, head_weights, keys = as_floats(q), as_floats(head_weights), as_floats(keys)
    row_group, num_visible = as_int64(row_group), as_int64(num_visible)
    out = q.new_empty(q.shape[0], keys.shape[1])
    cpu.index_scores(
        context,
        q=q.data_ptr(),
        head_weights=head_weights.data_ptr(),
        keys=keys.data_ptr(),
        row_group=row_group.data_ptr(),
        num_visible=num_visible.data_ptr(),
        out=out.data_ptr(),
        num_rows=q.shape[0],
        num_heads=q.shape[1],
        dim=q.shape[2],
        num_groups=keys.shape[0],
        num_entries=keys.shape[1],
        scale=scale,
        rounds_bf16=round_bf16,
    )
    return out
