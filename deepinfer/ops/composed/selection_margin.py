"""How clear the indexer's choices were: for the research hooks, never used by the model."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def selection_margin(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Gap between the last chosen and the first rejected of `count` choices; inf when nothing was rejected.

    Args:
        scores: float32 [T, N]; -inf and NaN can not be chosen.
        count: choices per row; with 0 there is no gap.

    Returns:
        float32 [T].
    """
    if count == 0 or scores.shape[1] <= count:
        return torch.full((scores.shape[0],), torch.inf, device=scores.device)
    best = torch.topk(torch.where(scores.isnan(), -torch.inf, scores), count + 1, dim=1).values
    rejected = best[:, count]
    return torch.where(rejected.isneginf(), torch.inf, best[:, count - 1] - rejected)


def block_margin(scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int, num_blocks: int) -> torch.Tensor:
    """The same for candidate blocks, which compete by their best entry; the newest block is in and does not compete.

    Args:
        scores: float32 [T, N], -inf at invisible entries.
        num_visible: int64 [T].
        block_size: entries per block.
        num_blocks: blocks per row, the newest included.

    Returns:
        float32 [T].
    """
    scores = torch.where(scores.isnan(), -torch.inf, scores)
    padded = F.pad(scores, (0, -scores.shape[1] % block_size), value=-torch.inf)
    best = padded.view(scores.shape[0], padded.shape[1] // block_size, block_size).amax(-1)
    newest = (num_visible.unsqueeze(1) - 1).div(block_size, rounding_mode="floor")
    blocks = torch.arange(best.shape[1], device=scores.device)
    return selection_margin(best.masked_fill(blocks == newest, -torch.inf), num_blocks - 1)
