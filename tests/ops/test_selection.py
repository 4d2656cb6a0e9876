"""Selecting entries and blocks, bit by bit against plain Python."""

from __future__ import annotations

import math

import pytest
import torch

from deepinfer.ops import PrimitiveOps
from tests.ops.builders import normal


def _best(scores: list[float], k: int) -> list[int]:
    order = sorted((i for i, s in enumerate(scores) if s > -math.inf), key=lambda i: (-scores[i], i))[:k]
    return sorted(order) + [-1] * (k - len(order))


def _tied_scores(rows: int, entries: int) -> torch.Tensor:
    scores = (normal(rows, entries) * 3).round()
    return scores.masked_fill(normal(rows, entries, seed=1) > 1, -torch.inf)


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("entries", [0, 1, 7, 64, 100])
@pytest.mark.parametrize("k", [1, 7, 64])
def test_topk(ops: PrimitiveOps, rows: int, entries: int, k: int):
    scores = _tied_scores(rows, entries)
    got = ops.select_topk(scores, k)
    assert got.shape == (rows, k) and got.dtype == torch.int64
    assert got.tolist() == [_best(row, k) for row in scores.tolist()]


def test_topk_with_few_visible(ops: PrimitiveOps):
    scores = torch.full((2, 20), -torch.inf)
    scores[1, 13], scores[1, 4] = -5.0, -5.0
    assert ops.select_topk(scores, 3).tolist() == [[-1, -1, -1], [4, 13, -1]]


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("entries", [0, 1, 8, 61, 64])
@pytest.mark.parametrize("num_blocks", [1, 3, 20])
def test_blocks(ops: PrimitiveOps, rows: int, entries: int, num_blocks: int):
    scores = (normal(rows, entries) * 3).round()
    visible = torch.randint(0, entries + 1, (rows,), generator=torch.Generator().manual_seed(3))
    scores.masked_fill_(torch.arange(entries) >= visible[:, None], -torch.inf)
    got = ops.select_blocks(scores, visible, block_size=8, num_blocks=num_blocks)
    want = []
    for row, count in zip(scores.tolist(), visible.tolist(), strict=True):
        best = [max(row[i : i + 8]) for i in range(0, count, 8)]
        if best:
            best[-1] = math.inf  # the newest visible block is always in
        want.append(_best(best, num_blocks))
    assert got.shape == (rows, num_blocks) and got.tolist() == want


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("entries", [0, 1, 61, 64])
def test_restrict(ops: PrimitiveOps, rows: int, entries: int):
    scores = normal(rows, entries)
    blocks = torch.full((rows, 5), -1)
    count = -(-entries // 8)
    for row in range(rows if count else 0):
        chosen = torch.randperm(count)[:4].sort().values
        blocks[row, : len(chosen)] = chosen
    got = ops.restrict_to_blocks(scores, blocks, block_size=8)
    want = [
        [s if i // 8 in chosen else -math.inf for i, s in enumerate(row)]
        for row, chosen in zip(scores.tolist(), blocks.tolist(), strict=True)
    ]
    assert got.tolist() == want


def test_nan_is_never_chosen(ops: PrimitiveOps):
    nan, inf = math.nan, math.inf
    scores = torch.tensor([[nan, nan, 0.0, 0.0], [nan] * 4, [1.0, nan, -inf, 3.0], [inf, nan, nan, -5.0]])
    assert ops.select_topk(scores, 3).tolist() == [[2, 3, -1], [-1, -1, -1], [0, 3, -1], [0, 3, -1]]
    assert ops.select_topk(scores, 1).tolist() == [[2], [-1], [3], [0]]
    assert ops.select_topk(scores, 4)[0].tolist() == [2, 3, -1, -1]


def test_nan_does_not_choose_a_block(ops: PrimitiveOps):
    nan = math.nan
    scores = torch.tensor([[nan, nan, 0.0, nan, 5.0, 4.0, nan, 1.0], [nan] * 8])
    visible = torch.tensor([8, 8])
    pick = {"block_size": 2, "num_blocks": 2}
    assert ops.select_blocks(scores, visible, **pick).tolist() == [[2, 3], [3, -1]]
    scores[1] = -math.inf
    assert ops.select_blocks(scores, torch.tensor([8, 0]), **pick)[1].tolist() == [-1, -1]
