"""Hide the entries outside a row's candidate blocks."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, as_int64


def restrict_to_blocks(
    context: cpu.Context, scores: torch.Tensor, blocks: torch.Tensor, *, block_size: int
) -> torch.Tensor:
    """See `deepinfer.ops.reference.restrict_to_blocks`; bit-equal to it."""
    scores, blocks = as_floats(scores), as_int64(blocks)
    out = torch.empty_like(scores)
    cpu.restrict_to_blocks(
        context,
        scores=scores.data_ptr(),
        blocks=blocks.data_ptr(),
        out=out.data_ptr(),
        num_rows=scores.shape[0],
        num_entries=scores.shape[1],
        num_blocks=blocks.shape[1],
        block_size=block_size,
    )
    return out
