"""Ratio-2 compression."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import PrimitiveOps
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


@pytest.mark.parametrize("rows", [0, 1, 20])
def test_against_softmax(ops: PrimitiveOps, rows: int):
    score, value = normal(rows, 2, 33) * 5, normal(rows, 2, 33, seed=1)
    want = (torch.softmax(score.double(), dim=1) * value.double()).sum(1)
    assert_close(ops.pool_pairs(score, value), want, "pool_pairs")


def test_extreme_scores_pick_one(ops: PrimitiveOps):
    score = torch.tensor([[[500.0, -500.0], [-500.0, 500.0]]])
    assert ops.pool_pairs(score, torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist() == [[1.0, 4.0]]
