"""Selecting entries of a paged cache, against scores of every entry and plain Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.ops import Ops, reference
from tests.ops.builders import normal, paged

LAYOUT = VectorFormat(32, KVRounding.FP4_GROUP32, True)
LENGTHS = (70, 5, 200, 3)  # entries that the last row of each sequence sees
TOPK, BLOCK, NUM_BLOCKS = 6, 8, 3
OPTIONS: dict[str, Any] = {
    "max_visible": 200, "topk": TOPK, "scale": 0.25, "round_bf16": True, "block_size": BLOCK,
    "num_blocks": NUM_BLOCKS, "with_margins": False,
}  # fmt: skip


def _case() -> tuple[torch.Tensor, ...]:
    """q, head weights, keys [S, 208, di], row_seq and num_visible of three rows of each sequence."""
    row_seq = torch.arange(4).repeat_interleave(3)
    visible = torch.tensor([length - 1 + step for length in LENGTHS for step in (-1, 0, 1)])
    return normal(12, 4, 32), normal(12, 4, seed=1), normal(4, 208, 32, seed=2), row_seq, visible


def _scores(case: tuple[torch.Tensor, ...]) -> list[list[float]]:
    """Of the visible entries of every row."""
    q, weights, keys, row_seq, visible = case
    rounded = reference.round_vectors(keys, LAYOUT.rounding)
    scores = reference.index_scores(q, weights, rounded, row_seq, visible, scale=0.25, round_bf16=True)
    return [row[:count] for row, count in zip(scores.tolist(), visible.tolist(), strict=True)]


def _best(scores: dict[int, float], k: int) -> list[int]:
    chosen = sorted(sorted(scores, key=lambda i: (-scores[i], i))[:k])
    return chosen + [-1] * (k - len(chosen))


def _block_scores(row: list[float]) -> dict[int, float]:
    best = {i // BLOCK: max(row[i : i + BLOCK]) for i in range(0, len(row), BLOCK)}
    return best | {(len(row) - 1) // BLOCK: math.inf}


def test_picks_and_blocks_are_the_best():
    case = _case()
    q, weights, keys, row_seq, visible = case
    entries, scores = paged(keys, LAYOUT, 16, row_seq), _scores(case)
    got = reference.select_entries(q, weights, entries, visible, None, **OPTIONS)
    assert got.picks.tolist() == [_best(dict(enumerate(row)), TOPK) for row in scores]
    assert got.blocks is not None and got.margin is None and got.block_margin is None
    wanted = [_best(_block_scores(row), NUM_BLOCKS) for row in scores]
    assert [b for b, row in zip(got.blocks.tolist(), scores, strict=True) if len(row) > TOPK] == [
        b for b, row in zip(wanted, scores, strict=True) if len(row) > TOPK
    ]
    inside = reference.select_entries(q, weights, entries, visible, got.blocks, **OPTIONS | {"num_blocks": 0})
    assert inside.blocks is None
    for picks, row, blocks in zip(inside.picks.tolist(), scores, wanted, strict=True):
        allowed = {i: s for i, s in enumerate(row) if len(row) <= TOPK or i // BLOCK in blocks}
        assert picks == _best(allowed, TOPK)


def test_margins_are_gaps():
    case = _case()
    q, weights, keys, row_seq, visible = case
    entries = paged(keys, LAYOUT, 16, row_seq)
    got = reference.select_entries(q, weights, entries, visible, None, **OPTIONS | {"with_margins": True})
    plain = reference.select_entries(q, weights, entries, visible, None, **OPTIONS)
    assert torch.equal(got.picks, plain.picks)
    assert got.margin is not None and got.block_margin is not None
    for row, margin, block_margin in zip(_scores(case), got.margin.tolist(), got.block_margin.tolist(), strict=True):
        ranked = sorted(row, reverse=True)
        assert margin == (ranked[TOPK - 1] - ranked[TOPK] if len(row) > TOPK else math.inf)
        blocks = sorted(_block_scores(row).values(), reverse=True)[1:]
        assert block_margin == (blocks[NUM_BLOCKS - 2] - blocks[NUM_BLOCKS - 1] if len(blocks) > 2 else math.inf)


def test_nothing_is_scored_where_everything_fits(ops: Ops):
    q, weights, keys, row_seq, _ = _case()
    junk = paged(torch.full_like(keys, torch.nan), LAYOUT, 16, row_seq)
    visible = torch.arange(12) % (TOPK + 1)
    got = ops.select_entries(q, weights, junk, visible, None, **OPTIONS | {"max_visible": TOPK})
    assert got.picks.tolist() == [[i if i < count else -1 for i in range(TOPK)] for count in visible.tolist()]


@pytest.mark.parametrize("rows", [0, 1, 12])
def test_backends_agree(ops: Ops, rows: int):
    """Scores that small integers make exact in any order."""
    q, weights, keys, row_seq, visible = _case()
    q, weights, keys = q.round(), weights.round(), keys.round()
    entries = paged(keys, VectorFormat(32, KVRounding.NONE, False), 16, row_seq[:rows])
    operands = (q[:rows], weights[:rows], entries, visible[:rows], None)
    got, want = (backend.select_entries(*operands, **OPTIONS) for backend in (ops, reference))
    assert got.picks.shape == (rows, TOPK) and torch.equal(got.picks, want.picks)
    assert got.blocks is not None and want.blocks is not None and torch.equal(got.blocks, want.blocks)
