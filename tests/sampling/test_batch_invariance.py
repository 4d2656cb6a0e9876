"""A row's tokens and log-probabilities have the same bits whatever shares the batch; case 02."""

import random

import numpy as np
import pytest
import torch

from deepinfer.sampling.logprobs import log_softmax
from tests.sampling.requests import make_request, make_sampler

KINDS = [
    {"temperature": 0},
    {"temperature": 1},
    {"temperature": 0.3, "top_p": 0.9},
    {"temperature": 1.5, "top_p": 0.95, "logprobs": 3},
    {"top_k": 40, "logprobs": 0},
    {"min_p": 0.05, "logprobs": 4, "logprobs_mode": "processed"},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "logprobs": -1},
    {"temperature": 1e-5, "logit_bias": {5: 3.0}, "logprobs": 2, "logprobs_mode": "processed"},
]


def _same(a, b):
    return (
        (a.token_id, a.logprob, a.rank) == (b.token_id, b.logprob, b.rank)
        and np.array_equal(a.top_ids, b.top_ids)
        and np.array_equal(a.top_logprobs, b.top_logprobs)
    )


@pytest.mark.parametrize("vocab", [777, 4096])
def test_rows_do_not_see_each_other(vocab):
    size = 17
    logits = torch.randn(size, vocab, generator=torch.Generator().manual_seed(vocab)) * 2
    requests = [make_request(row, prompt=[row, 1], seed=row, **KINDS[row % len(KINDS)]) for row in range(size)]
    sampler = make_sampler(requests, vocab)
    indices = [row % 5 for row in range(size)]
    history = [[3, 5, 5, 9, 5][:index] for index in indices]
    alone = [sampler.sample(logits[row : row + 1], [row], [indices[row]], [history[row]])[0] for row in range(size)]
    rng = random.Random(0)
    threads = torch.get_num_threads()
    try:
        for num_rows in (2, 3, 8, 17):
            torch.set_num_threads(1 + num_rows % 2)
            rows = rng.sample(range(size), num_rows)
            together = sampler.sample(
                logits[rows], rows, [indices[row] for row in rows], [history[row] for row in rows]
            )
            assert all(_same(result, alone[row]) for result, row in zip(together, rows, strict=True))
    finally:
        torch.set_num_threads(threads)


def test_a_seeded_request_repeats_whatever_its_neighbours():
    logits = torch.tensor([3.0, 2.0, 1.0, 0.0] + [-40.0] * 284)
    seeded = make_request(0, seed=42)

    def run(neighbours, place):
        requests = [make_request(1 + number, seed=1000 + number) for number in range(neighbours)]
        requests.insert(place, seeded)
        sampler = make_sampler(requests, 288)
        tokens = []
        for index in range(16):
            active = requests if index < 1 or neighbours != 2 else [seeded]  # neighbours that end early
            rows = sampler.sample(
                logits.expand(len(active), -1), [item.seq_id for item in active], [index] * len(active)
            )
            tokens.append(rows[active.index(seeded)].token_id)
        return tokens

    expected = run(0, 0)
    assert len(set(expected)) > 1
    assert all(run(neighbours, place) == expected for neighbours, place in ((1, 0), (7, 0), (7, 7), (2, 1)))


def test_equal_requests_agree_and_prompts_differ():
    logits = torch.zeros(1, 1000)
    twins = make_sampler(
        [make_request(0, prompt=[1, 2]), make_request(1, prompt=[1, 2]), make_request(2, prompt=[1, 3])], 1000
    )
    tokens = [[twins.sample(logits, [seq], [index])[0].token_id for index in range(8)] for seq in range(3)]
    assert tokens[0] == tokens[1] != tokens[2]


def test_log_softmax_bits_and_accuracy():
    logits = torch.randn(33, 1000, generator=torch.Generator().manual_seed(1)) * 8
    whole = log_softmax(logits)
    assert all(torch.equal(log_softmax(logits[row : row + 1])[0], whole[row]) for row in range(33))
    assert torch.allclose(whole.double(), torch.log_softmax(logits.double(), -1), atol=1e-5, rtol=2e-7)
