"""Index scores against float64."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import PrimitiveOps
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


def _model(q, w, keys, group, visible, scale: float) -> torch.Tensor:
    products = torch.einsum("thd,tnd->thn", q.double(), keys.double()[group])
    scores = scale * (products.relu() * w.double()[:, :, None]).sum(1)
    return scores.masked_fill(torch.arange(keys.shape[1]) >= visible[:, None], -torch.inf)


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
@pytest.mark.parametrize("entries", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize(("heads", "dim"), [(4, 32), (20, 40)])
def test_against_float64(ops: PrimitiveOps, rows: int, entries: int, heads: int, dim: int):
    q, w = normal(rows, heads, dim), normal(rows, heads, seed=1)
    keys = normal(2, entries, dim, seed=2)
    group = (torch.arange(rows) % 2).sort().values
    visible = torch.randint(0, entries + 1, (rows,), generator=torch.Generator().manual_seed(3))
    got = ops.index_scores(q, w, keys, group, visible, scale=0.125, round_bf16=False)
    assert_close(got, _model(q, w, keys, group, visible, 0.125), "index_scores")
    rounded = ops.index_scores(q, w, keys, group, visible, scale=0.125, round_bf16=True)
    assert torch.equal(rounded, got.to(torch.bfloat16).to(torch.float32))


def test_junk_behind_a_groups_end_has_no_effect(ops: PrimitiveOps):
    q, w, keys = normal(4, 4, 32), normal(4, 4, seed=1), normal(2, 100, 32, seed=2)
    group, visible = torch.tensor([0, 0, 1, 1]), torch.tensor([10, 70, 1, 2])
    want = ops.index_scores(q, w, keys, group, visible, scale=1.0, round_bf16=False)
    keys[0, 70:], keys[1, 2:] = torch.nan, torch.nan
    assert torch.equal(ops.index_scores(q, w, keys, group, visible, scale=1.0, round_bf16=False), want)
