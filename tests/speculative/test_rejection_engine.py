"""Rejection sampling through the whole engine, on a model whose target and draft distributions are known tables."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch

import deepinfer.sampling.sampler as sampler_module
from deepinfer import DraftConfidence, SamplingParams
from tests.sampling.chi_square import chi_square_fails
from tests.speculative.table_drafts import IDS, SCORES, costs, start, target_table, triples
from tests.support.table_model import TableDraft, chain_table

FREE = SamplingParams(max_tokens=40, ignore_eos=True)


@pytest.fixture(scope="module")
def llm(table_models):
    with start(table_models) as llm:
        yield llm


@pytest.fixture(scope="module")
def scheduled(table_models):
    with start(table_models, speculative={"cost_curve": costs(0.2, 1.0)}) as llm:
        yield llm


def fails(counts, expected):
    return chi_square_fails(counts.ravel(), expected.ravel() / expected.sum())


def drafts_left(llm):
    return len(llm._runtime.worker._runner._chooser._memory)


@pytest.mark.parametrize("budget", ["llm", "scheduled"])
def test_the_next_three_tokens(budget, request):
    llm = request.getfixturevalue(budget)
    assert not fails(*triples(llm, 40, 8))
    stats = llm.stats()
    most = 3 * stats.num_verify_steps
    assert stats.num_drafts_verified > most * 0.9 if budget == "llm" else 0 < stats.num_drafts_verified < most * 0.9
    assert 0 < stats.num_drafts_accepted < stats.num_drafts_verified
    assert drafts_left(llm) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("budget", ["llm", "scheduled"])
def test_the_next_three_tokens_5000_times(budget, request):
    assert not fails(*triples(request.getfixturevalue(budget), 500, 10))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("wrong", ["always", "draft"])
def test_a_wrong_sampler_is_caught(wrong, llm, monkeypatch):
    honest = sampler_module.judge_drafts

    def judge(target, draft, ids, coins, words):
        judged = honest(target, draft, ids, coins, words)
        from_draft = sampler_module.draw(draft.to(torch.int64), words)
        return ids if wrong == "always" else torch.where(judged == ids, ids, from_draft)

    monkeypatch.setattr(sampler_module, "judge_drafts", judge)
    assert fails(*triples(llm, 120, 10))


def test_values_and_rules_are_the_target_s(llm):
    """Log-probabilities, forced tokens, minimum lengths, bans and stops under random acceptance."""
    kinds: list[dict[str, Any]] = [
        {"logprobs": 4, "logprobs_mode": "processed"},
        {"golden_token_ids": [-1, 30, -1, -1, 50, 50, 50, -1]},
        {"min_tokens": 9, "stop_token_ids": [40]},
        {"allowed_token_ids": [20, 50]},
        {"temperature": 0},
        {"structured_outputs": {"regex": "[\x04\x0e]{5}"}, "ignore_eos": False},
        {"logits_processors": [lambda ids, row: row if len(ids) % 2 else torch.where(row > 2.5, -50.0, row)]},
    ]
    outputs = llm.generate([[10]] * len(kinds), [FREE.replace(**kind) for kind in kinds], use_tqdm=False)
    assert [output.error for output in outputs] == [None] * len(kinds)
    scored, forced, minimum, allowed, greedy, structured, _ = (output.outputs[0] for output in outputs)
    log_probs = torch.log_softmax(target_table(), dim=0)
    for previous, token, entry in zip([10, *scored.token_ids], scored.token_ids, scored.logprobs, strict=False):
        assert entry[token].logprob == pytest.approx(float(log_probs[token, previous]), abs=1e-5)
    assert [forced.token_ids[place] for place in (1, 4, 5, 6)] == [30, 50, 50, 50] and len(forced.token_ids) == 40
    assert len(minimum.token_ids) >= 10 and 40 not in minimum.token_ids[:9] and minimum.token_ids[-1] == 40
    assert set(allowed.token_ids) == {20, 50}
    chain = [10]
    for _ in range(40):
        chain.append(int(target_table()[:, chain[-1]].argmax()))
    assert greedy.token_ids == chain[1:]
    assert structured.grammar_complete and set(structured.token_ids[:5]) <= {20, 30} and len(structured.token_ids) == 6


def test_forks_and_preemption_repeat(table_models):
    """The same schedule gives the same tokens; nothing of the drafts stays behind."""
    params = [FREE.replace(n=1 + place % 3, max_tokens=16 + place) for place in range(5)]
    runs = []
    for _ in range(2):
        with start(table_models, max_num_seqs=6, kv_cache_bytes=18_000, max_num_batched_tokens=17) as llm:
            outputs = llm.generate([[10, 20, 30]] * 5, params, use_tqdm=False)
            runs.append([completion.token_ids for output in outputs for completion in output.outputs])
            assert llm.stats().num_preemptions > 0 and llm.stats().num_forked > 0
            assert drafts_left(llm) == 0
    assert runs[0] == runs[1]
    assert len({tuple(tokens[:12]) for tokens in runs[0]}) == len(runs[0])


def test_a_repeated_step_makes_plain_draws(llm, monkeypatch):
    """A step that was computed and given up has used its drafts' distributions up, and left newer ones."""
    worker = llm._runtime.worker
    execute = worker.execute
    monkeypatch.setattr(worker, "execute", lambda plan: (execute(plan), execute(plan))[1])
    before = llm.stats().num_drafts_accepted
    assert not fails(*triples(llm, 20, 6))
    assert llm.stats().num_drafts_accepted > before
    assert drafts_left(llm) == 0


def test_confidences(table_models):
    with start(table_models, speculative={"report_confidences": True, "temperatures": [2.0]}) as llm:
        outputs = llm.generate([[10]] * 6, FREE.replace(max_tokens=30), use_tqdm=False)
    for output in outputs:
        completion = output.outputs[0]
        tokens, entries = completion.token_ids, completion.confidence
        assert sum(entry.accepted for entry in entries) == completion.num_accepted_tokens
        assert len(entries) < completion.num_draft_tokens
        for entry, following in itertools.pairwise(entries):
            if entry.accepted and entry.position < 2:
                assert (following.output_index, following.position) == (entry.output_index + 1, entry.position + 1)
            else:
                assert following.position == 0 and following.output_index == entry.output_index + 1 + entry.accepted
        for entry in entries:  # everything before a judged draft was accepted, so the token before it is in the text
            score = SCORES.get(tokens[entry.output_index - 1], 0.0) / 2
            assert entry.confidence == pytest.approx(1 / (1 + np.exp(-score)), abs=1e-5)
        assert json.loads(json.dumps(output.to_dict()))["outputs"][0]["confidence"][0] == entries[0].to_dict()


def test_a_stop_string_before_an_end_inside_an_accepted_run(table_models):
    """The scheduler ends the text at EOS, the stop string ended it two tokens earlier: all counters follow the text."""
    chain = [10, *IDS[:2], 60, 1]
    draft = TableDraft({before: {after: 20.0} for before, after in itertools.pairwise(chain)}, {1: 20.0})
    path = table_models.path(chain_table(chain), draft=draft)
    params = SamplingParams(temperature=0, max_tokens=20, stop=["\x0e"], include_stop_str_in_output=True)
    for options in ({"batch_invariant": True}, {}):
        with start(table_models, path, speculative={"report_confidences": True}, **options) as llm:
            (whole,) = llm.generate([[10]], params.replace(stop=None), use_tqdm=False)
            assert whole.outputs[0].token_ids == chain[1:] and whole.outputs[0].num_accepted_tokens == 3
            before = llm.stats()
            (output,) = llm.generate([[10]], params, use_tqdm=False)
            after = llm.stats()
        completion = output.outputs[0]
        assert (completion.token_ids, completion.stop_reason) == ([20, 30], "\x0e")
        assert completion.confidence == (DraftConfidence(1, 0, 0.5, True),)
        assert after.num_generated_tokens - before.num_generated_tokens == 2
        assert after.num_verify_steps - before.num_verify_steps == 1
        assert after.num_verify_tokens - before.num_verify_tokens == 1
        assert after.num_drafts_accepted - before.num_drafts_accepted == completion.num_accepted_tokens == 1
