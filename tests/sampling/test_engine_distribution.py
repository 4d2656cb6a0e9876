"""2,000 draws through the whole engine follow the table's distribution, and a biased sampler fails the same check."""

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from tests.sampling.chi_square import chi_square_fails
from tests.sampling.test_transform import expected_probabilities
from tests.support.table_model import VOCAB, soft_table

NUM_DRAWS = 2000
PER_REQUEST = 10


def draws(llm, **fields):
    """Counts per id over 200 unseeded requests of 10 tokens; behind every id stands the same column."""
    params = SamplingParams(max_tokens=PER_REQUEST, ignore_eos=True, **fields)
    outputs = llm.generate([[10]] * (NUM_DRAWS // PER_REQUEST), params, use_tqdm=False)
    tokens = [token for output in outputs for token in output.outputs[0].token_ids]
    assert len(tokens) == NUM_DRAWS
    return np.bincount(tokens, minlength=VOCAB), tokens


@pytest.fixture(scope="module", params=["reference", "cpu"])
def llm(request, table_models):
    options = {"backend": request.param, "numerics": "fp32", "max_model_len": 32, "block_size": 8, "max_num_seqs": 200}
    with LLM(table_models.path(soft_table()), **options) as llm:
        yield llm


EXACT = soft_table()[:, 10]


@pytest.mark.parametrize(
    "fields", [{}, {"temperature": 2.0}, {"temperature": 1.5, "top_p": 0.9, "top_k": 3, "min_p": 0.05}]
)
def test_draws_follow_the_distribution(llm, fields):
    counts, tokens = draws(llm, **fields)
    expected = expected_probabilities(EXACT, **fields)
    assert not chi_square_fails(counts, np.where(expected < 1e-12, 0, expected))
    ids = np.flatnonzero(expected > 1e-12)
    pairs = np.zeros((VOCAB, VOCAB))
    for request in np.array(tokens).reshape(-1, PER_REQUEST):  # successive tokens are independent
        np.add.at(pairs, (request[:-1], request[1:]), 1)
    joint = np.outer(expected, expected)[np.ix_(ids, ids)]
    assert not chi_square_fails(pairs[np.ix_(ids, ids)].ravel(), joint.ravel() / joint.sum())


def test_a_biased_sampler_fails_the_same_check(llm, monkeypatch):
    """The draw is bent a little inside the engine: the test above must notice. (With log-probabilities every backend
    draws with the sampler in torch.)
    """
    import deepinfer.sampling.sampler as module

    honest = module.draw

    def biased(weights: torch.Tensor, words: np.ndarray) -> torch.Tensor:
        return honest(weights, (words.astype(np.float64) * 0.9).astype(np.uint64))  # never the last tenth

    monkeypatch.setattr(module, "draw", biased)
    counts, _ = draws(llm, logprobs=0)
    expected = expected_probabilities(EXACT)
    assert chi_square_fails(counts, np.where(expected < 1e-12, 0, expected))
