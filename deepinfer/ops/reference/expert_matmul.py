"""Product of every assignment's row with its expert's quantized matrix."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from deepinfer.ops.reference.expert_layout import ExpertLayout
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, matmul_grouped

_CHUNK_ELEMENTS = 1 << 22  # weights dequantized at a time, at least one expert


def expert_matmul(rows: torch.Tensor, stack: QuantizedWeight, layout: ExpertLayout) -> torch.Tensor:
    """``rows[a] @ stack[expert of a].T``; only experts that have rows are read.

    Args:
        rows: float32 [A, K], one per assignment.
        stack: [E, N, K].
        layout: places of the assignments.

    Returns:
        float32 [A, N].
    """
    num_tiles = sum(layout.tiles_per_expert)
    tiles = rows.new_zeros(num_tiles * TILE_ROWS, rows.shape[1])
    tiles[layout.slots] = rows
    tiles = tiles.view(num_tiles, TILE_ROWS, -1)
    per_chunk = max(1, _CHUNK_ELEMENTS // (stack.out_features * stack.in_features))
    outputs = []
    begin = 0
    for first in range(0, len(layout.experts), per_chunk):
        chunk = slice(first, first + per_chunk)
        counts = layout.tiles_per_expert[chunk]
        dense = dequantize_weight(_select(stack, layout.experts[chunk]))
        outputs.append(matmul_grouped(tiles[begin : begin + sum(counts)], dense, counts))
        begin += sum(counts)
    out = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    return out.view(num_tiles * TILE_ROWS, -1).index_select(0, layout.slots)


def _select(stack: QuantizedWeight, experts: list[int]) -> QuantizedWeight:
    """The matrices of some experts, without a copy when they are consecutive."""
    if experts[-1] - experts[0] + 1 == len(experts):
        run = slice(experts[0], experts[-1] + 1)
        return QuantizedWeight(stack.codes[run], stack.scales[run], stack.format)
    ids = torch.tensor(experts, device=stack.codes.device)
    codes = stack.codes.view(torch.uint8).index_select(0, ids).view(stack.codes.dtype)
    return QuantizedWeight(codes, stack.scales.index_select(0, ids), stack.format)
