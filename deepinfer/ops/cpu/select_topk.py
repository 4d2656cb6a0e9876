"""The k best entries of every row."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats


def select_topk(context: cpu.Context, scores: torch.Tensor, k: int) -> torch.Tensor:
    """See `deepinfer.ops.reference.select_topk`; equal to it."""
    scores = as_floats(scores)
    picks = torch.empty(scores.shape[0], k, dtype=torch.int64)
    cpu.select_topk(
        context,
        scores=scores.data_ptr(),
        picks=picks.data_ptr(),
        num_rows=scores.shape[0],
        num_entries=scores.shape[1],
        k=k,
    )
    return picks
