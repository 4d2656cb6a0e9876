"""Scores of compressed entries for every query row."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from deepinfer.ops.reference.matmul import matmul_rows
from deepinfer.ops.reference.matmul_grouped import TILE_ROWS, align_columns, aligned
from deepinfer.ops.reference.tree_sum import tree_sum

TILE_ENTRIES = 64


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

    Every product has the shape [16, di] x [di, 64] (16 query vectors, 64 entries), whatever the numbers of rows and
    entries, so a score's bits depend on its own operands only. Tiles without a visible entry are skipped.

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
    num_rows, num_entries = q.shape[0], keys.shape[1]
    padding = -num_entries % TILE_ENTRIES
    keys = align_columns(F.pad(keys, (0, 0, 0, padding)) if padding else keys)
    q = align_columns(q)
    out = q.new_full((num_rows, num_entries + padding), -torch.inf)
    for group in sorted(set(row_group.tolist())):
        rows = (row_group == group).nonzero().squeeze(1)
        visible = num_visible[rows]
        num_tiles = -(-int(visible.max()) // TILE_ENTRIES)
        score = _scores_by_row if rows.shape[0] < num_tiles else _scores_by_tile
        score(out, q, head_weights, keys[group], rows, visible)
    out.mul_(scale)
    if round_bf16:
        out = out.to(torch.bfloat16).to(torch.float32)
    entry = torch.arange(out.shape[1], device=out.device)
    return out.masked_fill_(entry >= num_visible.unsqueeze(1), -torch.inf)[:, :num_entries]


def _scores_by_tile(
    out: torch.Tensor,
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: torch.Tensor,
    rows: torch.Tensor,
    visible: torch.Tensor,
) -> None:
    """Many rows: one product per tile of entries, over the rows that see it."""
    num_heads = q.shape[1]
    for begin in range(0, int(visible.max()), TILE_ENTRIES):
        seeing = rows[visible > begin]
        vectors = q[seeing].flatten(0, 1)
        products = matmul_rows(vectors, keys[begin : begin + TILE_ENTRIES]).view(-1, num_heads, TILE_ENTRIES)
        out[seeing, begin : begin + TILE_ENTRIES] = _sum_heads(products, head_weights[seeing])


def _scores_by_row(
    out: torch.Tensor,
    q: torch.Tensor,
    head_weights: torch.Tensor,
    keys: torch.Tensor,
    rows: torch.Tensor,
    visible: torch.Tensor,
) -> None:
    """Few rows: one product per row and 16 heads, over all tiles of entries the row sees."""
    num_heads, dim = q.shape[1:]
    padded = F.pad(q[rows], (0, 0, 0, -num_heads % TILE_ROWS))
    for index, (row, limit) in enumerate(zip(rows.tolist(), visible.tolist(), strict=True)):
        num_tiles = -(-limit // TILE_ENTRIES)
        tiles = aligned(keys[: num_tiles * TILE_ENTRIES]).view(num_tiles, TILE_ENTRIES, dim).transpose(1, 2)
        parts = [torch.bmm(heads.expand(num_tiles, -1, -1), tiles) for heads in padded[index].view(-1, TILE_ROWS, dim)]
        products = (parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))[:, :num_heads]
        weights = head_weights[row].expand(num_tiles, -1)
        out[row, : num_tiles * TILE_ENTRIES] = _sum_heads(products, weights).reshape(-1)


def _sum_heads(products: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Weighted sum of relu over heads: products [n, Hi, 64] (overwritten), weights [n, Hi] -> [n, 64]."""
    return tree_sum(products.relu_().mul_(weights.unsqueeze(-1)), dim=1)
