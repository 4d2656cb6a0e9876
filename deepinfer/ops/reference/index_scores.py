"""Scores of compressed entries for every query row."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.bmm_rows import bmm_rows
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, align_columns, aligned
from deepinfer.ops.reference.tree_sum import tree_sum

TILE_ENTRIES = 64
_VECTORS = 32  # query vectors (rows x heads) of one product, at least one row
_CHUNK_BYTES = 1 << 22  # products at a time, at least one tile


def index_scores(
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: torch.Tensor,
    row_group: torch.Tensor,
    num_visible: torch.Tensor,
    *,
    scale: float,
    round_bf16: bool,
) -> torch.Tensor:
    """``scale * sum_h head_weights[h] * relu(q[h] . key)`` of every visible entry (spec/model.md 7).

    Every product has the shape [P, di] x [di, 64] (P query vectors, 64 entries) with a P that depends on Hi alone, so a
    score's bits depend on its own operands only. Tiles of entries that nobody sees are skipped.

    Args:
        q: float32 [T, Hi, di].
        head_weights: float32 [T, Hi].
        keys: float32 [G, N, di]; entries behind a group's end may hold anything.
        row_group: int64 [T], which group's keys a row looks at.
        num_visible: int64 [T], entries 0 .. num_visible-1 are visible.
        scale: constant factor.
        round_bf16: round the scaled score to bf16.

    Returns:
        float32 [T, N]; -inf at invisible entries.
    """
    num_rows, num_heads, num_entries = q.shape[0], q.shape[1], keys.shape[1]
    keys = align_columns(F.pad(keys, (0, 0, 0, -num_entries % TILE_ENTRIES)))
    tiles = aligned(keys).view(keys.shape[0], -1, TILE_ENTRIES, keys.shape[2]).transpose(2, 3)
    q = align_columns(q)
    out = q.new_full((num_rows, keys.shape[1]), -torch.inf)
    rows_per_block = max(1, _VECTORS // num_heads)
    padding = -rows_per_block * num_heads % TILE_ROWS
    for group, rows in _row_blocks(row_group.tolist(), rows_per_block):
        missing = rows_per_block - len(rows)
        where = slice(rows[0], rows[-1] + 1) if rows[-1] - rows[0] == len(rows) - 1 else torch.tensor(rows)
        vectors = F.pad(q[where].flatten(0, 1), (0, 0, 0, missing * num_heads + padding))
        seen = tiles[group, : -(-int(num_visible[where].max()) // TILE_ENTRIES)]
        out[where, : seen.shape[0] * TILE_ENTRIES] = _scores(vectors, seen, head_weights[where])
    out.mul_(scale)
    if round_bf16:
        out = out.to(torch.bfloat16).to(torch.float32)
    entry = torch.arange(out.shape[1], device=out.device)
    return out.masked_fill_(entry >= num_visible.unsqueeze(1), -torch.inf)[:, :num_entries]


def _row_blocks(row_group: list[int], size: int) -> Iterator[tuple[int, list[int]]]:
    """(group, at most `size` rows of it) until all rows are given out."""
    rows_of: dict[int, list[int]] = {}
    for row, group in enumerate(row_group):
        rows_of.setdefault(group, []).append(row)
    for group, rows in rows_of.items():
        for begin in range(0, len(rows), size):
            yield group, rows[begin : begin + size]


def _scores(vectors: torch.Tensor, tiles: torch.Tensor, head_weights: torch.Tensor) -> torch.Tensor:
    """Unscaled scores [r, n * 64] of query vectors [P, di], row by row, against tiles [n, di, 64].

    head_weights: [r, Hi].
    """
    num_vectors, (num_rows, num_heads) = vectors.shape[0], head_weights.shape
    chunk = max(1, _CHUNK_BYTES // (num_vectors * TILE_ENTRIES * 4))
    scores = vectors.new_empty(num_rows, tiles.shape[0], TILE_ENTRIES)
    weights = head_weights.unsqueeze(-1)
    for begin in range(0, tiles.shape[0], chunk):
        part = tiles[begin : begin + chunk]
        products = bmm_rows(vectors.expand(part.shape[0], -1, -1), part)[:, : num_rows * num_heads]
        products = products.unflatten(1, (num_rows, num_heads)).relu_().mul_(weights)
        scores[:, begin : begin + chunk] = tree_sum(products, dim=2).transpose(0, 1)
    return scores.flatten(1)
