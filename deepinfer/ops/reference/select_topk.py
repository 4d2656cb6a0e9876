"""The k best entries of every row."""

from __future__ import annotations

import torch


def select_topk(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Numbers of the k highest scores of a row; equal scores go to the lower number, -inf and NaN are never
    chosen.

    Args:
        scores: float32 [T, N].
        k: most entries per row.

    Returns:
        int64 [T, k], ascending, -1 behind the last chosen.
    """
    num_rows, num_entries = scores.shape
    count = min(k, num_entries)
    scores = torch.where(scores.isnan(), -torch.inf, scores)
    best = scores.topk(min(k + 1, num_entries), dim=1)
    chosen = best.indices[:, :count]
    if 0 < count < num_entries:
        cut, next_best = best.values[:, count - 1], best.values[:, count]
        # Equal scores on both sides of the cut: which of them topk took is not defined.
        unclear = ((cut == next_best) & (cut > -torch.inf)).nonzero().squeeze(1)
        if unclear.shape[0]:
            chosen[unclear] = _lowest_tied(scores[unclear], cut[unclear].unsqueeze(1), count)
    chosen = torch.where(scores.gather(1, chosen) > -torch.inf, chosen, num_entries).sort(dim=1).values
    out = torch.full((num_rows, k), -1, dtype=torch.int64, device=scores.device)
    out[:, :count] = torch.where(chosen < num_entries, chosen, -1)
    return out


def _lowest_tied(scores: torch.Tensor, cut: torch.Tensor, count: int) -> torch.Tensor:
    """int64 [T, count]: the entries above the cut [T, 1], and of those at the cut the lowest ones."""
    above, tied = scores > cut, scores == cut
    room = count - above.sum(1, keepdim=True)
    taken = above | (tied & (tied.cumsum(1) <= room))
    return taken.nonzero()[:, 1].view(-1, count)
