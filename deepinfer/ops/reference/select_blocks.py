"""The best blocks of consecutive entries of every row (first level of the two-level index)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.select_topk import select_topk


def select_blocks(scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int, num_blocks: int) -> torch.Tensor:
    """Blocks by their best visible score; the newest visible block always counts (spec/model.md 7).

    A NaN score is as good as -inf: it neither chooses nor bars its block.

    Args:
        scores: float32 [T, N], -inf at invisible entries.
        num_visible: int64 [T].
        block_size: entries per block.
        num_blocks: most blocks per row.

    Returns:
        int64 [T, num_blocks], ascending, -1 padded; equal scores go to the lower number.
    """
    scores = torch.where(scores.isnan(), -torch.inf, scores)
    padded = F.pad(scores, (0, -scores.shape[1] % block_size), value=-torch.inf)
    best = padded.view(scores.shape[0], padded.shape[1] // block_size, block_size).amax(-1)
    newest = (num_visible.unsqueeze(1) - 1).div(block_size, rounding_mode="floor")  # -1 when nothing is visible
    block = torch.arange(best.shape[1], device=scores.device)
    return select_topk(best.masked_fill(block == newest, torch.inf), num_blocks)
