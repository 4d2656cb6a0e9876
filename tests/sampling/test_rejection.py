"""Rejection sampling, exactly: coins and words on a grid show the acceptance rule and the residual."""

import numpy as np
import pytest
import torch

from deepinfer.errors import RequestError
from deepinfer.sampling.draft_memory import DraftMemory
from deepinfer.sampling.proposed_draft import ProposedDraft
from deepinfer.sampling.rejection import judge_drafts
from tests.sampling.requests import make_request, make_sampler

GRID = 4096
EVEN = np.arange(GRID, dtype=np.uint64) << np.uint64(52)  # GRID words, evenly spread over all
UNIT = 2**40


def judge(target, draft, token, coins, words):
    """judge_drafts on GRID equal rows."""
    rows = len(coins)
    target = torch.tensor(target, dtype=torch.int64).expand(rows, -1)
    draft = torch.tensor(draft, dtype=torch.float32).expand(rows, -1)
    return judge_drafts(target, draft, torch.full((rows,), token), coins, words).numpy()


@pytest.mark.parametrize("scale", [1, 3, UNIT // 8])
def test_a_draft_is_accepted_with_the_quotient_of_the_probabilities(scale):
    target, draft = np.array([1, 3, 4, 0]) * scale, [4, 2, 1, 1]  # q = 1/8 3/8 1/2 0, p = 1/2 1/4 1/8 1/8
    low = np.zeros(GRID, np.uint64)
    for token, share in ((0, 0.25), (1, 1.0), (2, 1.0), (3, 0.0)):
        kept = judge(target, draft, token, EVEN, low) == token
        assert kept.sum() == share * GRID
        assert np.all(kept[: int(share * GRID)])  # U below the quotient


def test_a_rejected_draft_becomes_a_token_of_the_residual():
    high = np.full(GRID, 2**64 - 1, np.uint64)
    found = judge([1, 3, 4, 0], [4, 2, 1, 1], 0, high, EVEN)  # q - p = -3/8 1/8 3/8 -1/8
    assert np.bincount(found, minlength=4).tolist() == [0, GRID // 4, 3 * GRID // 4, 0]


def test_equal_distributions_accept_everything_also_where_the_residual_is_empty():
    high = np.full(GRID, 2**64 - 1, np.uint64)
    weights = [UNIT, UNIT // 3, 7, 1]
    weights = np.asarray(weights, np.float32).astype(np.int64)
    for token in range(4):
        assert np.all(judge(weights, weights, token, high, EVEN) == token)
        assert np.all(judge(weights * 3, weights, token, high, EVEN) == token)


def test_an_empty_residual_gives_the_best_token_of_the_target():
    """A draft outside its own distribution cannot happen; it shows the last resort of the rule."""
    target, draft = torch.tensor([[0, 5, 5]]), torch.tensor([[0.0, 5.0, 5.0]])
    words = np.array([2**64 - 1], np.uint64)
    assert judge_drafts(target, draft, torch.tensor([0]), words, words).tolist() == [1]


def test_rows_do_not_see_each_other():
    generator = np.random.default_rng(5)
    target = torch.from_numpy(generator.integers(0, UNIT, (64, 32)))
    draft = torch.from_numpy(generator.integers(1, 2**24, (64, 32))).float()
    ids = torch.from_numpy(generator.integers(0, 32, 64))
    coins, words = generator.integers(0, 2**64, (2, 64), dtype=np.uint64)
    whole = judge_drafts(target, draft, ids, coins, words).tolist()
    alone = [
        judge_drafts(target[i : i + 1], draft[i : i + 1], ids[i : i + 1], coins[i : i + 1], words[i : i + 1])
        for i in range(64)
    ]
    assert whole == [int(one) for one in alone]


LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, 1.5]])


def proposals(count=200, **params):
    sampler = make_sampler([make_request(**params)], 5)
    return sampler, [sampler.propose(LOGITS, [0], [index], 0)[0] for index in range(count)]


def test_a_draft_is_drawn_from_exactly_the_weights_that_are_kept():
    _, drafts = proposals(top_p=0.8)
    assert {draft.token_id for draft in drafts} == {0, 1, 4}
    for draft in drafts:
        weights = draft.weights
        assert weights.dtype == torch.float32 and weights.shape == (5,)
        assert torch.equal(weights, weights.round()) and weights.max() == UNIT
        assert torch.equal(weights > 0, torch.tensor([True, True, False, False, True]))


def test_each_place_of_a_block_has_its_own_word():
    sampler, drafts = proposals()
    tokens = [[draft.token_id for draft in drafts]]
    for place in range(1, 4):
        tokens.append([sampler.propose(LOGITS, [0], [index], place)[0].token_id for index in range(200)])
    tokens.append(sampler.draft(LOGITS.expand(200, -1), [0] * 200, range(200)))
    tokens.append([token.token_id for token in sampler.sample(LOGITS.expand(200, -1), [0] * 200, range(200))])
    assert tokens[-1] == tokens[-2]  # coupled drafts share the target's word
    assert len({tuple(row) for row in tokens}) == 5


@pytest.mark.parametrize("params", [{"temperature": 0}, {"top_k": 1}])
def test_greedy_is_the_argmax_whatever_was_drafted(params):
    sampler, drafts = proposals(1, **params)
    assert drafts[0] == ProposedDraft(0)
    other = ProposedDraft(3, torch.ones(5))
    for draft in (None, drafts[0], other):
        assert sampler.sample(LOGITS, [0], [0], drafts=[draft])[0].token_id == 0


def test_a_draft_without_a_distribution_leaves_a_plain_draw():
    sampler, _ = proposals(0)
    broken = sampler.propose(torch.full((1, 5), torch.nan), [0], [0], 0)[0]
    assert broken.weights is None
    for index in range(50):
        (plain,) = sampler.sample(LOGITS, [0], [index])
        assert sampler.sample(LOGITS, [0], [index], drafts=[broken]) == [plain]


def test_forced_tokens_bans_and_errors_come_before_any_draft():
    sampler = make_sampler([make_request(golden_token_ids=[3, -1], logit_bias={1: -1.0}, allowed_token_ids=[1, 3])], 5)
    draft = ProposedDraft(0, torch.full((5,), 8.0))
    assert sampler.sample(LOGITS, [0], [0], drafts=[draft])[0].token_id == 3
    found = [sampler.sample(LOGITS, [0], [1 + index], drafts=[draft])[0].token_id for index in range(60)]
    assert set(found) == {1, 3}
    (error,) = sampler.sample(torch.full((1, 5), torch.nan), [0], [1], drafts=[draft])
    assert isinstance(error, RequestError) and error.code == "non_finite_logits"


def test_log_probabilities_are_those_of_the_target():
    for mode in ("raw", "processed"):
        request = make_request(logprobs=2, logprobs_mode=mode, temperature=0.7, repetition_penalty=1.3)
        sampler = make_sampler([request], 5)
        by_token = {}
        for index in range(60):
            (plain,) = sampler.sample(LOGITS, [0], [index], [[4]])
            by_token[plain.token_id] = plain
        for index in range(60):
            draft = sampler.propose(LOGITS.flip(1), [0], [index], 0)
            (judged,) = sampler.sample(LOGITS, [0], [index], [[4]], draft)
            plain = by_token[judged.token_id]
            assert (judged.logprob, judged.rank) == (plain.logprob, plain.rank)
            assert judged.top_ids.tolist() == plain.top_ids.tolist()
            assert judged.top_logprobs.tolist() == plain.top_logprobs.tolist()


def test_the_memory_gives_a_set_once_and_for_its_own_index():
    drafts = [ProposedDraft(token) for token in (7, 8, 9)]
    memory = DraftMemory(2)
    memory.put(0, 4, drafts)
    assert memory.take(0, 4, [7, 8]) == drafts[:2]
    assert memory.take(0, 4, [7, 8]) == [None, None]
    memory.put(0, 4, drafts)
    assert memory.take(0, 5, [7]) == [None] and not len(memory)
    memory.put(0, 4, drafts)
    with pytest.raises(AssertionError, match=r"drafts \[7, 8\] came back as \[7, 9\]"):
        memory.take(0, 4, [7, 9])
    for seq_id in range(4):
        memory.put(seq_id, 1, drafts)
    assert len(memory) == 2 and memory.take(1, 1, [7]) == [None] and memory.take(3, 1, []) == []
    memory.drop([2, 5])
    assert not len(memory)
