"""Elementary functions: accuracy in units in the last place, special values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from deepinfer.ops.reference import exact_math as em
from deepinfer.ops.reference.tree_sum import tree_sum
from tests.ops.builders import normal

INF, NAN = math.inf, math.nan
POINTS = torch.cat((torch.linspace(-86.9, 88.7, 200_001), normal(100_000), normal(10_000, seed=1) * 1e-3))
POSITIVE = torch.cat(
    (normal(100_000).abs(), (normal(100_000, seed=1) * 20).exp().clamp(1e-37, 1e38), 1 + normal(10_000) * 1e-3)
)


def _ulps(got: torch.Tensor, want: torch.Tensor) -> float:
    spacing = np.spacing(want.abs().float().numpy()).astype(np.float64)
    return float(((got.double() - want).abs() / torch.from_numpy(spacing)).max())


@pytest.mark.parametrize(
    ("function", "exact", "points", "bound"),
    [
        (em.exp, torch.exp, POINTS, 2),
        (em.sigmoid, torch.sigmoid, POINTS.clamp(-80), 3),
        (em.silu, lambda x: x * torch.sigmoid(x), POINTS.clamp(-80), 3),
        (em.softplus, lambda x: torch.log1p(torch.exp(x)), POINTS.clamp(-80), 3),
        (em.log, torch.log, POSITIVE, 2),
        (em.sqrt, torch.sqrt, POSITIVE, 2),
    ],
)
def test_accuracy(function, exact, points: torch.Tensor, bound: float):
    assert _ulps(function(points), exact(points.double())) <= bound


@pytest.mark.parametrize(
    ("function", "x", "want"),
    [
        (em.exp, [0.0, -INF, INF, NAN, 89.0, -200.0], [1.0, 0.0, INF, NAN, INF, 0.0]),
        (em.log, [0.0, 1.0, INF, -1.0, NAN, -INF], [-INF, 0.0, INF, NAN, NAN, NAN]),
        (em.sigmoid, [0.0, INF, -INF, NAN], [0.5, 1.0, 0.0, NAN]),
        (em.silu, [0.0, INF, NAN, 100.0], [0.0, INF, NAN, 100.0]),
        (em.softplus, [INF, -INF, NAN, 100.0], [INF, 0.0, NAN, 100.0]),
        (em.sqrt, [0.0, INF, -1.0, NAN, 4.0], [0.0, INF, NAN, NAN, 2.0]),
    ],
)
def test_special_values(function, x: list[float], want: list[float]):
    got = function(torch.tensor(x))
    assert np.array_equal(got.numpy(), np.array(want, dtype=np.float32), equal_nan=True)


def test_subnormal_log():
    x = torch.tensor([1e-40, 1e-44])
    torch.testing.assert_close(em.log(x).double(), x.double().log(), rtol=2e-7, atol=0)


def test_rsqrt_is_correctly_rounded_twice():
    """The assumption of the module: torch.rsqrt is one IEEE square root and one IEEE division."""
    x = POSITIVE
    assert np.array_equal(torch.rsqrt(x).numpy(), np.float32(1) / np.sqrt(x.numpy()))


def test_inputs_are_untouched():
    x = normal(50).abs()
    before = x.clone()
    for function in (em.exp, em.log, em.sigmoid, em.silu, em.softplus, em.sqrt):
        function(x)
        assert torch.equal(x, before)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 31, 33, 1000])
def test_tree_sum(n: int):
    x = normal(7, n)
    padded = torch.nn.functional.pad(x, (0, (1 << (n - 1).bit_length()) - n))
    want = padded
    while want.shape[1] > 1:
        half = want.shape[1] // 2
        want = want[:, :half] + want[:, half:]
    assert torch.equal(tree_sum(x), want[:, 0])
    assert torch.equal(tree_sum(x.T, dim=0), want[:, 0])
    assert torch.equal(tree_sum(padded), want[:, 0])


def test_tree_sum_of_nothing():
    assert tree_sum(torch.zeros(3, 0)).tolist() == [0.0, 0.0, 0.0]
    assert tree_sum(torch.zeros(0, 5)).shape == (0,)
