"""Ratio-2 compression: two tokens' values become one, weighted per column."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.exact_math import exp


def pool_pairs(score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Softmax over the two tokens of every column, applied to their values (spec/model.md 5).

    Args:
        score: float32 [n, 2, d].
        value: float32 [n, 2, d].

    Returns:
        float32 [n, d].
    """
    e = exp(score - score.amax(1, keepdim=True))
    weighted = e * value
    return (weighted[:, 0] + weighted[:, 1]).div_(e[:, 0] + e[:, 1])
