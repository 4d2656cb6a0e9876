"""Sum of the outputs of a row's experts."""

from __future__ import annotations

import torch


def sum_experts(routed: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    """What `moe` does with outputs, wherever they were computed: added in float32, pick by pick, then the shared
    expert's, and rounded once (spec/model.md 8).

    Args:
        routed: bf16 or float32 [T, k, D], best pick first.
        shared: the same dtype [T, D].

    Returns:
        the same dtype [T, D].
    """
    total = routed[:, 0].to(torch.float32, copy=True)
    for pick in range(1, routed.shape[1]):
        total.add_(routed[:, pick])
    return total.add_(shared).to(shared.dtype)
