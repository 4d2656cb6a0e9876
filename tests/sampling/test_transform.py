"""Temperature, min_p, top-p, top-k and the draw, against a plain float64 model."""

import numpy as np
import pytest
import torch

from deepinfer.sampling.fixed_point import draw, fixed_weights
from deepinfer.sampling.token_order import best_keys, ids_of_keys, order_keys, ranks_of
from deepinfer.sampling.transform import transform
from deepinfer.sampling_params import SamplingParams

FIVE = torch.tensor([[2.0, 1.0, 1.0, 0.0, -1.0]])


def expected_probabilities(logits, temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0):
    """The rule of spec/decode.md 4.2, with min_p first, in float64."""
    logits = np.asarray(logits, np.float64)
    p = np.exp((logits - logits.max()) / temperature)
    p[p < min_p * p.max()] = 0.0
    p /= p.sum()
    order = sorted(range(len(p)), key=lambda token: (-logits[token], token))
    before = np.cumsum(p[order]) - p[order]
    kept = [token for place, token in enumerate(order) if top_p >= 1.0 or before[place] <= top_p]
    kept = kept[:top_k] if top_k > 0 else kept
    result = np.zeros_like(p)
    result[kept] = p[kept]
    return result / result.sum()


def _probabilities(logits, **params):
    weights = transform(logits, [SamplingParams(**params)] * len(logits)).weights.double()
    return (weights / weights.sum(dim=-1, keepdim=True)).numpy()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"top_p": 0.75}, [0.576117, 0.211942, 0.211942, 0, 0]),
        ({"top_p": 0.95, "top_k": 2}, [0.731059, 0.268941, 0, 0, 0]),
        ({"temperature": 0.5}, [0.774314, 0.104792, 0.104792, 0.014182, 0.001919]),
        ({"top_p": 2.0**-52}, [1, 0, 0, 0, 0]),
        ({"top_k": 99}, None),
        ({"min_p": 1.0}, [1, 0, 0, 0, 0]),
    ],
)
def test_fixed_vectors(params, expected):
    if expected is None:
        expected = expected_probabilities(FIVE[0])
    assert np.allclose(_probabilities(FIVE, **params)[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.3},
        {"temperature": 5.0, "top_p": 0.9},
        {"top_p": 0.5},
        {"top_p": 0.999},
        {"top_k": 3},
        {"top_k": 100, "top_p": 0.95},
        {"min_p": 0.05},
        {"min_p": 0.02, "top_p": 0.8, "top_k": 20, "temperature": 1.5},
    ],
)
def test_against_the_plain_model(params):
    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(4)) * 2
    found = _probabilities(logits, **params)
    for row in range(20):
        expected = expected_probabilities(logits[row], **params)
        assert np.allclose(found[row], expected, rtol=2e-6, atol=1e-9)
        distribution = transform(logits[row : row + 1], [SamplingParams(**params)])
        kept, log_probs = expected > 0, distribution.log_probs()[0].numpy()
        assert np.array_equal(distribution.kept[0].numpy(), kept)
        assert np.allclose(log_probs[kept], np.log(expected[kept]), atol=2e-5) and np.isneginf(log_probs[~kept]).all()


def test_ties_keep_the_lowest_ids_and_zeros_are_equal():
    logits = torch.zeros(1, 8)
    logits[0, ::2] = -0.0
    assert (_probabilities(logits, top_k=3)[0] > 0).tolist() == [True] * 3 + [False] * 5
    assert (_probabilities(logits, top_p=0.5)[0] > 0).tolist() == [True] * 5 + [False] * 3


def test_prefix_is_minimal():
    logits = torch.randn(30, 200, generator=torch.Generator().manual_seed(5)) * 3
    full = _probabilities(logits)
    for top_p in (0.1, 0.6, 0.97):
        for row, kept in enumerate(_probabilities(logits, top_p=top_p) > 0):
            mass, last = full[row][kept].sum(), full[row][kept].min()
            assert mass > top_p and mass - last <= top_p


def test_banned_tokens_and_tiny_temperatures():
    logits = torch.full((1, 6), -torch.inf)
    logits[0, [1, 4]] = torch.tensor([3.0, 3.0001])
    for temperature in (1e-5, 1e-4, 1.0, 1e30):
        p = _probabilities(logits, temperature=temperature, top_k=5)[0]
        assert np.isfinite(p).all() and p.sum() == pytest.approx(1) and (p[[0, 2, 3, 5]] == 0).all()
    assert _probabilities(logits, temperature=1e-5)[0][4] > 0.9999
    assert _probabilities(torch.tensor([[3e38, -3e38]]), temperature=1e-5)[0].tolist() == [1, 0]


def test_mixed_rows_equal_single_rows():
    logits = torch.randn(4, 500, generator=torch.Generator().manual_seed(6))
    params = [
        SamplingParams(top_p=0.9),
        SamplingParams(top_k=7),
        SamplingParams(min_p=0.1),
        SamplingParams(temperature=0),
    ]
    together = transform(logits, params).weights
    for row in range(4):
        assert torch.equal(transform(logits[row : row + 1], params[row : row + 1]).weights[0], together[row])


def test_weights_are_exact_at_the_ends():
    weights = fixed_weights(torch.tensor([[0.0, -0.0, -27.0, -40.0, -torch.inf, -3e38]]))[0].tolist()
    assert weights[:2] == [2**40, 2**40] and weights[2] == pytest.approx(np.exp(-27) * 2**40, abs=1)
    assert weights[3:] == [0, 0, 0]


def test_draw_is_the_inverse_cdf():
    weights = torch.tensor([[0, 1, 0, 3, 0]] * 6)
    quarter = 2**62
    words = np.array([0, quarter - 1, quarter, 2 * quarter, 4 * quarter - 1, quarter + 1], np.uint64)
    assert draw(weights, words).tolist() == [1, 1, 3, 3, 3, 3]


def test_ranking():
    logits = torch.tensor([[0.5, -0.0, 0.0, 7.0, -3.0, 7.0, -torch.inf]])
    keys = order_keys(logits)
    order = [3, 5, 0, 1, 2, 4, 6]
    assert ids_of_keys(best_keys(keys, 7))[0].tolist() == order
    assert ids_of_keys(best_keys(keys, 3))[0].tolist() == order[:3]
    ranks = [int(ranks_of(logits, torch.tensor([token]))) for token in range(7)]
    assert ranks == [order.index(token) + 1 for token in range(7)]
