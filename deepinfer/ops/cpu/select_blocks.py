"""The best blocks of consecutive entries of every row."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, as_int64


def select_blocks(
    context: cpu.Context, scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int, num_blocks: int
) -> torch.Tensor:
    """See `deepinfer.ops.reference.select_blocks`; equal to it."""
    scores, num_visible = as_floats(scores), as_int64(num_visible)
    blocks = num_visible.new_empty(scores.shape[0], num_blocks)
    cpu.select_blocks(
        context,
        scores=scores.data_ptr(),
        num_visible=num_visible.data_ptr(),
        blocks=blocks.data_ptr(),
        num_rows=scores.shape[0],
        num_entries=scores.shape[1],
        block_size=block_size,
        num_blocks=num_blocks,
    )
    return blocks
