"""The picks of rows that see few enough entries to take them all."""

from __future__ import annotations

import torch


def all_visible(num_visible: torch.Tensor, topk: int) -> torch.Tensor:
    """Entries 0 .. num_visible-1, the first `topk` of them, as picks int64 [T, topk], -1 padded.

    num_visible: int64 [T].
    """
    numbers = torch.arange(topk, device=num_visible.device)
    return torch.where(numbers < num_visible[:, None], numbers, -1)
