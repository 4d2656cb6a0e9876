"""20,000 seeded draws against the exact distribution, and that the check can fail."""

import numpy as np
import pytest
import torch

from tests.sampling.chi_square import chi_square_fails
from tests.sampling.requests import make_request, make_sampler
from tests.sampling.test_transform import expected_probabilities

NUM_DRAWS = 20_000
SHAPES = {
    "uniform": torch.zeros(16),
    "normal": torch.randn(64, generator=torch.Generator().manual_seed(8)),
    "zipf": -torch.log(torch.arange(1.0, 101.0)),
    "soft": torch.tensor([3.0, 2.0, 1.0, 0.0] + [-40.0] * 60),
    "sparse": torch.full((256,), -torch.inf).index_fill(0, torch.tensor([3, 77, 200]), 1.0),
}


def _counts(logits, seed=11, **params):
    """How often each id comes in 20,000 draws of one request, one per output index."""
    sampler = make_sampler([make_request(seed=seed, **params)], len(logits))
    rows = logits.expand(NUM_DRAWS, -1)
    tokens = sampler.sample(rows, [0] * NUM_DRAWS, range(NUM_DRAWS))
    return np.bincount([token.token_id for token in tokens], minlength=len(logits))


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_draws(shape):
    assert not chi_square_fails(_counts(SHAPES[shape]), expected_probabilities(SHAPES[shape]))


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0.4},
        {"temperature": 2.0},
        {"top_p": 0.7},
        {"top_k": 5},
        {"min_p": 0.2},
        {"temperature": 1.3, "top_p": 0.9, "top_k": 20, "min_p": 0.05},
    ],
)
def test_transformed_draws(params):
    logits = SHAPES["normal"]
    assert not chi_square_fails(_counts(logits, **params), expected_probabilities(logits, **params))


def test_a_biased_sampler_fails_the_same_check():
    logits = SHAPES["soft"]
    expected = expected_probabilities(logits)
    counts = _counts(logits)
    assert not chi_square_fails(counts, expected)
    assert chi_square_fails(_counts(logits, temperature=1.08), expected)
    assert chi_square_fails(_counts(logits, top_p=0.96), expected)
    stolen = counts.copy()
    stolen[0] -= 400  # every fiftieth draw lands one id too high
    stolen[1] += 400
    assert chi_square_fails(stolen, expected)
    impossible = counts.copy()
    impossible[0] -= 1
    impossible[50] += 1
    assert chi_square_fails(impossible, np.where(expected < 1e-12, 0, expected))


def test_draws_of_different_prompts_and_seeds_are_independent():
    logits = torch.zeros(8)
    first = make_sampler([make_request(0, prompt=(1, 2)), make_request(1, prompt=(1, 3)), make_request(2, seed=43)], 8)
    streams = [
        [token.token_id for token in first.sample(logits.expand(4000, -1), [seq] * 4000, range(4000))]
        for seq in range(3)
    ]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        pairs = np.bincount(np.array(streams[a]) * 8 + streams[b], minlength=64)
        assert not chi_square_fails(pairs, np.full(64, 1 / 64))
    successive = np.bincount(np.array(streams[0][:-1]) * 8 + streams[0][1:], minlength=64)
    assert not chi_square_fails(successive, np.full(64, 1 / 64))
