"""The router."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import Ops
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


def _route_logits(
    ops: Ops, logits: list[float], bias: list[float], top_k: int, scaling: float = 1.5, normalize: bool = True
):
    """Route one row whose logits are given: x = [1], the weights are the logits."""
    return ops.route(
        torch.ones(1, 1), torch.tensor(logits)[:, None], torch.tensor(bias),
        top_k=top_k, scaling=scaling, normalize=normalize,
    )  # fmt: skip


def test_published_scores_and_weights(ops: Ops):
    scores = _route_logits(ops, [2.0, -1.0, 0.5, 3.0], [0.0] * 4, 4, scaling=1.0, normalize=False)
    assert scores.ids.tolist() == [[3, 0, 2, 1]]
    want = torch.tensor([[1.74602043, 1.45839913, 0.98695339, 0.55969785]])
    torch.testing.assert_close(scores.weights, want, atol=3e-7, rtol=0)
    picked = _route_logits(ops, [2.0, -1.0, 0.5, 3.0], [0.0] * 4, 2)
    assert picked.ids.tolist() == [[3, 0]]
    torch.testing.assert_close(picked.weights, torch.tensor([[0.81731827, 0.68268173]]), atol=3e-7, rtol=0)


def test_bias_selects_but_does_not_weigh(ops: Ops):
    picked = _route_logits(ops, [2.0, -1.0, 0.5, 3.0], [0.0, 5.0, 0.0, 0.0], 2)
    assert picked.ids.tolist() == [[1, 3]]
    s = torch.tensor([0.55969785, 1.74602043], dtype=torch.float64)
    assert_close(picked.weights, (1.5 * s / s.sum())[None], "route")
    assert float(picked.margin) == pytest.approx(1.74602043 - 1.45839913, abs=1e-6)


def test_ties_go_to_the_lower_id(ops: Ops):
    picked = _route_logits(ops, [1.0, 2.0, 2.0, 1.0, 2.0, 2.0], [0.0] * 6, 3)
    assert picked.ids.tolist() == [[1, 2, 4]]
    assert picked.margin.tolist() == [0.0]


def test_nothing_rejected_and_large_logits(ops: Ops):
    picked = _route_logits(ops, [30.0, 100.0, -100.0], [0.0] * 3, 3, scaling=1.0, normalize=False)
    assert picked.margin.tolist() == [torch.inf]
    assert picked.ids.tolist() == [[1, 0, 2]]
    torch.testing.assert_close(picked.weights, torch.tensor([[10.0, 30.0**0.5, 0.0]]))


@pytest.mark.parametrize("rows", [0, 1, 40])
def test_against_float64(ops: Ops, rows: int):
    x, gate, bias = normal(rows, 32), normal(24, 32, seed=1, dtype=torch.bfloat16), normal(24, seed=2)
    got = ops.route(x, gate, bias, top_k=4, scaling=1.5, normalize=True)
    s = torch.nn.functional.softplus(x.double() @ gate.double().T, threshold=50).sqrt()
    ranked = (s + bias.double()).sort(dim=1, descending=True, stable=True)
    assert torch.equal(got.ids, ranked.indices[:, :4])
    weights = s.gather(1, got.ids)
    assert_close(got.weights, 1.5 * weights / weights.sum(1, keepdim=True), "route")
    torch.testing.assert_close(got.margin.double(), ranked.values[:, 3] - ranked.values[:, 4], atol=1e-5, rtol=0)
