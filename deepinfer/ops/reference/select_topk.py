"""The k best entries of every row."""

from __future__ import annotations

import torch


def select_topk(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Numbers of the k highest scores of a row; equal scores go to the lower number, -inf is never chosen.

    Args:
        scores: float32 [T, N].
        k: most entries per row.

    Returns:
        int64 [T, k], ascending, -1 behind the last chosen.
    """
    num_rows, num_entries = scores.shape
    taken = scores > -torch.inf
    if num_entries > k:
        cut = scores.topk(k, dim=1).values[:, -1:]
        above, tied = scores > cut, (scores == cut) & taken
        room = k - above.sum(1, keepdim=True)
        taken = above | (tied & (tied.cumsum(1) <= room))
    row, entry = taken.nonzero(as_tuple=True)
    place = taken.cumsum(1)[row, entry] - 1
    out = torch.full((num_rows, k), -1, dtype=torch.int64, device=scores.device)
    out[row, place] = entry
    return out
