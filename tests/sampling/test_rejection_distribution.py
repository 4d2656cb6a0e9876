"""The next three tokens with drafts have the joint distribution of those without; wrong samplers are caught.

21,000 draws here, 201,000 in the slow form.
"""

import numpy as np
import pytest
import torch

import deepinfer.sampling.sampler as sampler_module
from deepinfer.sampling.rejection import judge_drafts
from tests.sampling.chi_square import chi_square_fails
from tests.sampling.requests import make_request, make_sampler

VOCAB, BLOCK, SPAN = 5, 3, 8  # SPAN output indices for each play
TARGET = torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(1)) * 1.2
DRAFT = TARGET + torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(2))
FILTERED = {"temperature": 0.8, "top_p": 0.93, "top_k": 4, "min_p": 0.02}
BANNED = {"allowed_token_ids": [0, 1, 3, 4], "logit_bias": {1: 0.7}}  # of the target only


def whole_block(drafts, previous_drafts):
    """Static: every draft is verified."""
    return np.full(len(drafts), BLOCK)


def by_earlier_drafts(drafts, previous_drafts):
    """Varlen: whether a draft is verified depends on the drafts before it, as its confidence does, and on old ones."""
    second = (drafts[:, 0] != 1) | (previous_drafts[:, 2] == 0)
    return 1 + second + (second & (drafts[:, 1] >= 2))


def by_old_drafts(drafts, previous_drafts):
    """The total of a step follows the confidences of the drafts before, judged or not."""
    return np.where(previous_drafts[:, 1] == 0, 1, 0)


def by_the_draft_itself(drafts, previous_drafts):
    """Not allowed: a draft decides about itself."""
    return np.where(drafts[:, 0] == 0, BLOCK, 0)


def play(num, budget, **params):
    """Three tokens of `num` plays, [num, 3]: blocks of drafts, as many verified as the budget says."""
    sampler = make_sampler([make_request(seed=23, **params)], VOCAB)
    tokens = np.full((num, SPAN), -1)
    lengths, last = np.zeros(num, int), np.zeros(num, int)
    old = np.zeros((num, BLOCK), int)
    while (live := np.flatnonzero(lengths < 3)).size:
        first = live * SPAN + lengths[live]
        previous, block = last[live], []
        for place in range(BLOCK):
            block.append(sampler.propose(DRAFT[previous], [0] * len(live), (first + place).tolist(), place))
            previous = np.array([draft.token_id for draft in block[-1]])
        drafts = np.array([[draft.token_id for draft in drafts] for drafts in block]).T
        allowed = budget(drafts, old[live])
        old[live] = drafts
        going = np.arange(len(live))
        for depth in range(BLOCK + 1):
            judged = [block[depth][i] if depth < allowed[i] else None for i in going.tolist()]
            rows = live[going]
            sampled = sampler.sample(TARGET[last[rows]], [0] * len(rows), (first[going] + depth).tolist(), None, judged)
            last[rows] = [token.token_id for token in sampled]
            tokens[rows, lengths[rows]] = last[rows]
            lengths[rows] += 1
            going = going[[j is not None and t.token_id == j.token_id for j, t in zip(judged, sampled, strict=True)]]
    return tokens[:, :3]


def joint(**params):
    """Probabilities [125] of three tokens without drafts, from the sampler's own transform."""
    sampler = make_sampler([make_request(logprobs=-1, logprobs_mode="processed", **params)], VOCAB)
    rows = [sampler.sample(TARGET[[token]], [0], [0])[0] for token in range(VOCAB)]
    step = np.zeros((VOCAB, VOCAB))
    for token, row in enumerate(rows):
        step[token, row.top_ids] = np.where(row.top_logprobs > -9000, np.exp(row.top_logprobs.astype(float)), 0.0)
    step /= step.sum(axis=1, keepdims=True)
    return (step[0][:, None, None] * step[:, :, None] * step[None, :, :]).ravel()


def fails(num, budget, **params):
    tokens = play(num, budget, **params)
    counts = np.bincount(tokens @ [VOCAB**2, VOCAB, 1], minlength=VOCAB**3)
    return chi_square_fails(counts, joint(**params))


@pytest.mark.parametrize("budget", [whole_block, by_earlier_drafts])
def test_three_tokens(budget):
    assert not fails(7_000, budget)


@pytest.mark.parametrize("params", [FILTERED, BANNED], ids=["filtered", "banned"])
def test_three_tokens_of_a_restricted_target(params):
    assert not fails(4_000, by_earlier_drafts, **params)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("params", [{}, FILTERED, BANNED], ids=["plain", "filtered", "banned"])
@pytest.mark.parametrize("budget", [whole_block, by_earlier_drafts, by_old_drafts])
def test_200_000_draws(budget, params):
    assert not fails(67_000, budget, **params)


def test_as_many_drafts_are_accepted_as_can_be():
    """The share is the sum of min(p, q); drawing target and draft with the same word accepts fewer."""
    num, previous = 5_000, 3
    sampler = make_sampler([make_request(seed=4)], VOCAB)
    rows, ids, indices = DRAFT[[previous]].expand(num, -1), [0] * num, range(num)
    drafts = sampler.propose(rows, ids, indices, 0)
    targets = TARGET[[previous]].expand(num, -1)
    judged = sampler.sample(targets, ids, indices, None, drafts)
    share = np.mean([token.token_id == draft.token_id for token, draft in zip(judged, drafts, strict=True)])
    best = float(torch.minimum(TARGET[previous].softmax(0), DRAFT[previous].softmax(0)).sum())
    assert share == pytest.approx(best, abs=4 * (best * (1 - best) / num) ** 0.5)
    plain = sampler.sample(targets, ids, indices)
    coupled = sampler.draft(rows, ids, indices)
    assert np.mean([token.token_id == draft for token, draft in zip(plain, coupled, strict=True)]) < share - 0.02


def accept_always(target, draft, ids, coins, words):
    return ids


def residual_is_the_draft(target, draft, ids, coins, words):
    honest = judge_drafts(target, draft, ids, coins, words)
    from_draft = sampler_module.draw(draft.to(torch.int64), words)
    return torch.where(honest == ids, ids, from_draft)


def residual_is_the_target(target, draft, ids, coins, words):
    honest = judge_drafts(target, draft, ids, coins, words)
    return torch.where(honest == ids, ids, sampler_module.draw(target, words))


def one_word_for_both(target, draft, ids, coins, words):
    return judge_drafts(target, draft, ids, coins, coins)


@pytest.mark.parametrize("wrong", [accept_always, residual_is_the_draft, residual_is_the_target, one_word_for_both])
def test_a_wrong_sampler_is_caught(wrong, monkeypatch):
    monkeypatch.setattr(sampler_module, "judge_drafts", wrong)
    assert fails(4_000, whole_block)


def test_a_budget_that_looks_at_the_draft_is_caught():
    assert fails(4_000, by_the_draft_itself)


def test_a_draft_word_used_twice_is_caught(monkeypatch):
    """Why a draft's key holds its place: an old, unjudged draft for the same output index may have set the budget."""
    assert not fails(6_000, by_old_drafts)
    honest = sampler_module.random_uint64
    monkeypatch.setattr(sampler_module, "random_uint64", lambda *key: honest(*key[:4]))
    assert fails(6_000, by_old_drafts)
