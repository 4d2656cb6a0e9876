"""Greedy choice."""

from __future__ import annotations

import torch

from deepinfer._C import cpu


def argmax_rows(context: cpu.Context, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The lowest id of each row's maximum.

    Args:
        context: threads and kernels.
        logits: float32 [n, V], V > 0; a row's elements are neighbours in memory.

    Returns:
        ids int64 [n], and bool [n]: False for a row with NaN or without a finite maximum (its id is of no use).
    """
    tokens, is_finite = torch.empty(len(logits), dtype=torch.int64), torch.empty(len(logits), dtype=torch.bool)
    cpu.argmax_rows(
        context,
        logits=logits.data_ptr(),
        tokens=tokens.data_ptr(),
        is_finite=is_finite.data_ptr(),
        num_rows=logits.shape[0],
        num_ids=logits.shape[1],
        stride=logits.stride(0),
    )
    return tokens, is_finite
