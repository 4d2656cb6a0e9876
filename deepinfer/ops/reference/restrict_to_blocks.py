"""Hide the entries outside a row's candidate blocks."""

from __future__ import annotations

import torch


def restrict_to_blocks(scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int) -> torch.Tensor:
    """Scores of entries inside the blocks, -inf elsewhere (second level of the two-level index).

    Args:
        scores: float32 [T, N].
        blocks: int64 [T, B] block numbers, -1 for none.
        block_size: entries per block.

    Returns:
        float32 [T, N].
    """
    num_rows, num_entries = scores.shape
    count = -(-num_entries // block_size)
    # One spare column at the end takes the -1 of absent blocks.
    allowed = torch.zeros(num_rows, count + 1, dtype=torch.bool, device=scores.device)
    allowed.scatter_(1, torch.where(blocks < 0, count, blocks), True)
    inside = allowed[:, :count].repeat_interleave(block_size, 1)[:, :num_entries]
    return torch.where(inside, scores, -torch.inf)
