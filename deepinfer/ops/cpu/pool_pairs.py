"""Ratio-2 compression: two tokens' values become one, weighted per column."""

from __future__ import annotations

import torch

from deepinfer._C import cpu


def pool_pairs(context: cpu.Context, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """See `deepinfer.ops.reference.pool_pairs`; bit-equal to it."""
    pairs = torch.stack((score, value), dim=2)  # [n, token, (score, value), d]
    out = score.new_empty(score.shape[0], score.shape[2])
    cpu.compress_pairs(
        context, pairs=pairs.data_ptr(), out=out.data_ptr(), num_pairs=score.shape[0], dim=score.shape[2]
    )
    return out
