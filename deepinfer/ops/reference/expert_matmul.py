"""Products of every assignment's row with its expert's quantized matrices."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from deepinfer.ops.reference.expert_layout import ExpertLayout
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, matmul_grouped

_CHUNK_ELEMENTS = 1 << 22  # weights dequantized at a time, at least one expert


def expert_matmul(rows: torch.Tensor, stacks: tuple[QuantizedWeight, ...], layout: ExpertLayout) -> list[torch.Tensor]:
    """``rows[a] @ stack[expert of a].T`` for every stack; only experts that have rows are read.

    Args:
        rows: float32 [A, K], one per assignment.
        stacks: each [E, N, K].
        layout: places of the assignments.

    Returns:
        float32 [A, N] per stack.
    """
    num_tiles = sum(layout.tiles_per_expert)
    tiles = rows.new_zeros(num_tiles * TILE_ROWS, rows.shape[1])
    tiles.index_copy_(0, layout.slots, rows)
    tiles = tiles.view(num_tiles, TILE_ROWS, rows.shape[1])
    return [_multiply(tiles, stack, layout).flatten(0, 1).index_select(0, layout.slots) for stack in stacks]


def _multiply(tiles: torch.Tensor, stack: QuantizedWeight, layout: ExpertLayout) -> torch.Tensor:
    """float32 [num_tiles, 16, N], a bounded number of experts at a time."""
    per_chunk = max(1, _CHUNK_ELEMENTS // (stack.out_features * stack.in_features))
    outputs = []
    begin = 0
    for first in range(0, len(layout.tiles_per_expert), per_chunk):
        counts = layout.tiles_per_expert[first : first + per_chunk]
        end = begin + sum(counts)
        dense = dequantize_weight(_select(stack, layout.experts[first : first + per_chunk]))
        outputs.append(matmul_grouped(tiles[begin:end], dense, counts))
        begin = end
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _select(stack: QuantizedWeight, experts: torch.Tensor) -> QuantizedWeight:
    """The matrices of some experts, ascending; without a copy when it is all of them."""
    if experts.shape[0] == stack.codes.shape[0]:
        return stack
    codes = stack.codes.view(torch.uint8).index_select(0, experts).view(stack.codes.dtype)
    return QuantizedWeight(codes, stack.scales.index_select(0, experts), stack.format)
