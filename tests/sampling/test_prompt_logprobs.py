"""Scores of prompt tokens; cases 10 and 11."""

import numpy as np
import pytest
import torch

from deepinfer.errors import RequestError
from deepinfer.sampling import join_prompt_logprobs, prompt_logprobs, rows_per_block


def _case(n=40, vocab=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, vocab, generator=generator) * 3, torch.randint(0, vocab, (n,), generator=generator)


@pytest.mark.parametrize("num_top", [0, 1, 5, 1000, -1])
def test_values(num_top):
    logits, targets = _case()
    scores = prompt_logprobs(logits, targets, start=1, num_top=num_top, num_valid_ids=300)
    expected = torch.log_softmax(logits.double(), -1)
    assert scores.start == 1 and scores.logprobs.dtype == np.float32
    assert np.allclose(scores.logprobs, expected.gather(1, targets[:, None])[:, 0], atol=1e-5)
    order = [sorted(range(300), key=lambda token, row=row: (-logits[row, token].item(), token)) for row in range(40)]
    assert scores.ranks.tolist() == [order[row].index(int(targets[row])) + 1 for row in range(40)]
    assert scores.greedy.tolist() == [rank == 1 for rank in scores.ranks.tolist()]
    if num_top < 0:
        assert scores.top_ids is None and np.allclose(scores.top_logprobs, expected, atol=1e-5)
    else:
        width = min(num_top, 300)
        assert scores.top_ids.tolist() == [row[:width] for row in order]
        assert np.allclose(scores.top_logprobs, expected.gather(1, torch.from_numpy(scores.top_ids).long()), atol=1e-5)


def test_ties_go_to_the_lower_id():
    logits = torch.zeros(2, 6)
    logits[:, [1, 4]] = 1.0
    scores = prompt_logprobs(logits, torch.tensor([4, 1]), start=3, num_top=2, num_valid_ids=6)
    assert scores.ranks.tolist() == [2, 1] and scores.greedy.tolist() == [False, True]
    assert scores.top_ids.tolist() == [[1, 4]] * 2


@pytest.mark.parametrize("num_top", [2, -1])
def test_padding_ids_take_mass_but_no_place(num_top):
    logits, targets = _case()
    logits[:, 290:] = 20.0
    targets[0] = 295
    scores = prompt_logprobs(logits, targets, start=1, num_top=num_top, num_valid_ids=290)
    expected = torch.log_softmax(logits.double(), -1)
    assert np.allclose(scores.logprobs, expected.gather(1, targets[:, None])[:, 0], atol=1e-5)
    assert scores.ranks[0] == 291 and not scores.greedy[0]
    assert scores.top_logprobs.shape == (40, 290 if num_top < 0 else 2)
    assert num_top < 0 or scores.top_ids.max() < 290


def test_chunks_give_the_same_bits():
    logits, targets = _case(50, 700)
    whole = prompt_logprobs(logits, targets, start=1, num_top=3, num_valid_ids=700)
    pieces = [
        prompt_logprobs(logits[a:b], targets[a:b], start=1 + a, num_top=3, num_valid_ids=700)
        for a, b in ((0, 1), (1, 8), (8, 50))
    ]
    joined = join_prompt_logprobs(pieces, sum(len(piece.logprobs) for piece in pieces))
    for name in ("start", "logprobs", "ranks", "greedy", "top_ids", "top_logprobs"):
        assert np.array_equal(getattr(whole, name), getattr(joined, name))


def test_blocks_are_bounded():  # that the runner keeps to them: worker/test_model_runner
    assert rows_per_block(50_000) == 20 and rows_per_block(2**30) == 1


def test_no_positions_and_bad_rows():
    logits, targets = _case(3, 10)
    empty = prompt_logprobs(logits[:0], targets[:0], start=1, num_top=2, num_valid_ids=10)
    assert empty.logprobs.shape == (0,) and empty.top_ids.shape == (0, 2)
    logits[1, 3] = torch.nan
    with pytest.raises(RequestError) as error:
        prompt_logprobs(logits, targets, start=1, num_top=0, num_valid_ids=10)
    assert error.value.code == "non_finite_logits"


def test_impossible_tokens_have_the_floor():
    logits = torch.tensor([[0.0, -torch.inf]])
    scores = prompt_logprobs(logits, torch.tensor([1]), start=1, num_top=-1, num_valid_ids=2)
    assert scores.logprobs.tolist() == [-9999.0] and scores.top_logprobs.tolist() == [[0.0, -9999.0]]
