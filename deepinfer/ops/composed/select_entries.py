"""The compressed entries that each row attends to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.selection import Selection
from deepinfer.ops.composed.index_group import IndexGroup
from deepinfer.ops.composed.selection_margin import block_margin, selection_margin
from deepinfer.ops.primitive_ops import PrimitiveOps

# float32 scores of one row chunk; what is made of them on the way to the picks is a few times as much.
SCORE_BYTES_PER_CHUNK = 8 * 2**20
LEAST_ROWS_PER_CHUNK = 16  # keys that come in parts are decoded again for every row chunk


def select_entries(
    ops: PrimitiveOps,
    q: torch.Tensor,
    head_weights: torch.Tensor,
    entries: PagedEntries,
    num_visible: torch.Tensor,
    candidates: torch.Tensor | None,
    *,
    max_visible: int,
    topk: int,
    scale: float,
    round_bf16: bool,
    block_size: int,
    num_blocks: int,
    with_margins: bool,
) -> Selection:
    """Score every visible entry, ``scale * sum_h head_weights[h] * relu(q[h] . key)``, and keep the best
    (spec/model.md 7).

    A row that sees at most `topk` entries takes them all. Equal scores go to the lower entry; NaN is never chosen.
    Sequences of like length are scored together, in row chunks, so that neither the keys of all sequences nor the
    scores of all rows ever exist at once; nor do, for a long one, all of its own keys.

    Args:
        ops: has `decode_vectors`, `index_scores`, `restrict_to_blocks`, `select_blocks` and `select_topk`.
        q: float32 [T, Hi, di] rotated, rounded query heads.
        head_weights: float32 [T, Hi].
        entries: index keys; entries behind a row's `num_visible` may hold anything.
        num_visible: int64 [T], entries 0 .. num_visible-1 are visible.
        candidates: int64 [T, B] blocks to choose from, -1 for none; None: all.
        max_visible: the largest of `num_visible`, or more.
        topk: most picks per row.
        scale: constant factor.
        round_bf16: round the scaled score to bf16.
        block_size: entries of a candidate block.
        num_blocks: candidate blocks to give per row, by their best score, the newest always in; 0: none.
        with_margins: also say how clear the choices were. Then rows that take all their entries are scored too.

    Returns:
        See `Selection`.
    """
    selection = _take_all(num_visible, topk, num_blocks, with_margins)
    query = _Query(ops, q, head_weights, entries, num_visible, scale, round_bf16)
    choice = _Choice(ops, num_visible, candidates, topk, block_size, selection)
    if max_visible > topk or with_margins:
        for group in IndexGroup.build_all(entries.first_block, num_visible, 4 * q.shape[2]):
            if group.num_entries > topk or with_margins:  # else everything fits
                for rows, scores in query.scores(group):
                    choice.fill(rows, scores)
    return selection


def _take_all(num_visible: torch.Tensor, topk: int, num_blocks: int, with_margins: bool) -> Selection:
    """What holds for rows that take all they see; the others' places are filled later."""
    margin = (
        torch.full(num_visible.shape, torch.inf, dtype=torch.float32, device=num_visible.device)
        if with_margins
        else None
    )
    return Selection(
        picks=Selection.all_visible(num_visible, topk),
        blocks=num_visible.new_full((num_visible.shape[0], num_blocks), -1) if num_blocks else None,
        margin=margin,
        block_margin=margin.clone() if margin is not None and num_blocks else None,
    )


@dataclass(frozen=True, slots=True)
class _Query:
    """Scores of all rows, some at a time."""

    ops: PrimitiveOps
    q: torch.Tensor
    head_weights: torch.Tensor
    entries: PagedEntries
    num_visible: torch.Tensor
    scale: float
    round_bf16: bool

    def scores(self, group: IndexGroup) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """(rows int64 [n], their scores float32 [n, N]) until every row of the group was there."""
        parts = group.key_parts(4 * self.q.shape[2])
        whole = self._keys(group, parts[0]) if len(parts) == 1 else None
        least = 1 if whole is not None else LEAST_ROWS_PER_CHUNK
        chunk = max(least, SCORE_BYTES_PER_CHUNK // (max(group.num_entries, 1) * 4))
        for rows, row_group in zip(group.rows.split(chunk), group.row_group.split(chunk), strict=True):
            if whole is not None:
                yield rows, self._score(rows, row_group, whole, parts[0])
            else:
                pieces = [self._score(rows, row_group, self._keys(group, part), part) for part in parts]
                yield rows, torch.cat(pieces, dim=1)

    def _keys(self, group: IndexGroup, part: range) -> torch.Tensor:
        """Keys float32 [G, len(part), di] of some entries of the group's sequences."""
        tables = group.first_block[:, None]
        numbers = torch.arange(part.start, part.stop, device=tables.device).expand(tables.shape[0], -1)
        return self.ops.decode_vectors(self.entries.gather(tables, numbers), self.entries.cache.format)

    def _score(self, rows: torch.Tensor, row_group: torch.Tensor, keys: torch.Tensor, part: range) -> torch.Tensor:
        """Scores float32 [n, len(part)] of rows [n], whose places in the group are `row_group`, for given keys."""
        return self.ops.index_scores(
            self.q[rows],
            self.head_weights[rows],
            keys,
            row_group,
            (self.num_visible[rows] - part.start).clamp(min=0),
            scale=self.scale,
            round_bf16=self.round_bf16,
        )


@dataclass(frozen=True, slots=True)
class _Choice:
    """Fills a selection in."""

    ops: PrimitiveOps
    num_visible: torch.Tensor
    candidates: torch.Tensor | None
    topk: int
    block_size: int
    selection: Selection

    def fill(self, rows: torch.Tensor, scores: torch.Tensor) -> None:
        """Choose for some rows [n] by their scores [n, N]."""
        to, visible = self.selection, self.num_visible[rows]
        if to.blocks is not None:
            shape = {"block_size": self.block_size, "num_blocks": to.blocks.shape[1]}
            to.blocks[rows] = self.ops.select_blocks(scores, visible, **shape)
            if to.block_margin is not None:
                to.block_margin[rows] = block_margin(scores, visible, **shape)
        if self.candidates is not None:
            scores = self.ops.restrict_to_blocks(scores, self.candidates[rows], block_size=self.block_size)
        best = self.ops.select_topk(scores, self.topk)
        to.picks[rows] = torch.where(visible[:, None] > self.topk, best, to.picks[rows])
        if to.margin is not None:
            to.margin[rows] = selection_margin(scores, self.topk)
