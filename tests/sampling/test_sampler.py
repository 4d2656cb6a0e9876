"""Order of operations, bans, penalties, forced tokens and failures; cases 01, 04, 05, 07, 08, 13."""

import json
import math
from dataclasses import replace

import pytest
import torch

from deepinfer.errors import RequestError
from deepinfer.text.banned_words import TextBan
from deepinfer.text.token_texts import TokenTexts
from tests.sampling.requests import make_request, make_sampler, sample_one


def _token(logits, **options):
    return sample_one(torch.as_tensor(logits, dtype=torch.float32), **options).token_id


@pytest.mark.parametrize("temperature", [0, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 0.01])
def test_small_temperatures_follow_the_table(temperature):
    sampler = make_sampler([make_request(prompt=[10], temperature=temperature, logprobs=2)], 288)
    token, generated = 10, []
    for index in range(8):
        logits = torch.zeros(1, 288)
        logits[0, (5 * token + 7) % 256] = 20.0
        result = sampler.sample(logits, [0], [index], [generated])[0]
        token = result.token_id
        generated.append(token)
        assert math.isfinite(result.logprob)
    assert generated == [57, 36, 187, 174, 109, 40, 207, 18]


@pytest.mark.parametrize("params", [{"temperature": 0}, {"top_k": 1}, {"top_k": 1, "temperature": 5.0}])
def test_argmax_takes_the_lowest_id_of_a_tie(params):
    logits = torch.zeros(50)
    logits[[7, 30, 49]] = 2.0
    assert all(_token(logits, seed=seed, **params) == 7 for seed in range(20))


def test_ids_behind_the_tokenizer_never_come():
    logits = torch.zeros(288)
    logits[272:] = 30.0
    sampler = make_sampler([make_request(0, temperature=0, logprobs=-1), make_request(1, logprobs=5)], 272)
    for index in range(200):
        for result in sampler.sample(logits.expand(2, -1), [0, 1], [index] * 2):
            assert result.token_id < 272 and max(result.top_ids.tolist()) < 272
    assert len(sampler.sample(logits[None], [0], [0])[0].top_ids) == 272


def test_penalties_count_the_right_tokens():
    a, b, c = 0, 1, 2
    logits = [3.0, 2.9, -1.0]
    assert _token(logits, prompt=[a], temperature=0, repetition_penalty=1.2) == b
    assert _token(logits, prompt=[a], temperature=0, presence_penalty=0.5) == a
    assert _token(logits, prompt=[b], temperature=0, frequency_penalty=0.5, generated=[a], output_index=1) == b
    result = sample_one(
        torch.tensor(logits), prompt=[c], temperature=0, repetition_penalty=1.2, logprobs=3, logprobs_mode="processed"
    )
    by_id = dict(zip(result.top_ids.tolist(), result.top_logprobs.tolist(), strict=True))
    assert by_id[c] - by_id[a] == pytest.approx(-1.2 - 3.0, abs=1e-5)


def test_frequency_counts_and_presence_does_not():
    logits = [3.0, 0.0, 0.0]
    assert _token(logits, temperature=0, frequency_penalty=1.2, generated=[0, 0, 0], output_index=3) == 1
    assert _token(logits, temperature=0, presence_penalty=2.0, generated=[0, 0, 0], output_index=3) == 0
    assert _token(logits, temperature=0, frequency_penalty=-2.0, generated=[2, 2], output_index=2) == 2


def test_bias_allow_list_and_bans():
    logits = [5.0, 4.0, 3.0, 2.0]
    assert _token(logits, temperature=0, logit_bias={3: 10}) == 3
    assert _token(logits, temperature=0, logit_bias={0: -100}) == 1
    assert _token(logits, temperature=0, allowed_token_ids=[3, 2]) == 2
    assert _token(logits, temperature=0, allowed_token_ids=[3], logit_bias={0: 100}) == 3  # a ban beats a bias
    assert _token(logits, temperature=0, first_n_token_no_eos=2, output_index=1, eos_token_ids=[0]) == 1
    assert _token(logits, temperature=0, first_n_token_no_eos=2, output_index=2, eos_token_ids=[0]) == 0


def test_banned_words():
    texts = TokenTexts([b"t", b"ca", b"cat"])
    request = replace(make_request(0, temperature=0), banned_words=TextBan(["cat"], texts))
    sampler = make_sampler([request], 3)
    logits = torch.tensor([[2.0, 1.0, 3.0]])
    assert sampler.sample(logits, [0], [0], [[]])[0].token_id == 0  # 2 is banned
    assert sampler.sample(logits, [0], [1], [[1]])[0].token_id == 1  # 0 behind 1 too
    assert sampler.sample(logits, [0], [2], [[1, 1]])[0].token_id == 1
    assert sampler.sample(logits, [0], [2], [[1, 2]])[0].token_id == 0


@pytest.mark.parametrize("min_tokens", [0, 1, 4])
def test_min_tokens_holds_back_every_stop_id(min_tokens):
    logits = torch.tensor([[9.0, 8.0, 7.0, 0.0, 1.0]])  # 0 and 1 are EOS, 2 a stop id
    request = make_request(prompt=[4] * 40, temperature=0, min_tokens=min_tokens, stop_token_ids=[0, 1, 2])
    sampler = make_sampler([request], 5, [0, 1])
    tokens = [sampler.sample(logits, [0], [index])[0].token_id for index in range(min_tokens + 1)]
    assert tokens == [4] * min_tokens + [0]


def test_ignored_eos_and_the_last_id_may_be_produced():
    logits = torch.zeros(288)
    logits[287] = 5.0
    assert _token(logits, temperature=0, ignore_eos=True, eos_token_ids=[0]) == 287
    logits[0] = 9.0
    assert _token(logits, temperature=0, ignore_eos=True, min_tokens=4, eos_token_ids=[0]) == 0


def test_forced_tokens():
    logits = [5.0, 1.0, 0.0]
    options = {"temperature": 0, "golden_token_ids": [2, -1, 1], "logprobs": 1}
    first = sample_one(torch.tensor(logits), **options)
    assert first.token_id == 2 and first.rank == 3 and first.top_ids.tolist() == [0]
    assert first.logprob == pytest.approx(math.log(1 / (math.exp(5) + math.exp(1) + 1)), abs=1e-5)
    assert [_token(logits, output_index=index, **options) for index in (1, 2, 3)] == [0, 1, 0]
    outside = sample_one(
        torch.tensor(logits), **{**options, "temperature": 1, "top_k": 1, "logprobs_mode": "processed"}
    )
    assert outside.token_id == 2 and outside.logprob == -9999.0 and outside.top_logprobs.tolist() == [0.0]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("params", [{"temperature": 0}, {"temperature": 1, "top_p": 0.9}])
def test_a_bad_row_harms_no_other(poison, params):
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(9))
    sampler = make_sampler([make_request(seq, logprobs=3, **params) for seq in range(5)], 40)
    clean = sampler.sample(logits, range(5), [0] * 5)
    logits[2, 39] = poison
    logits[3] = -torch.inf
    results = sampler.sample(logits, range(5), [0] * 5)
    for row in (2, 3):
        assert isinstance(results[row], RequestError) and results[row].code == "non_finite_logits"
    for row in (0, 1, 4):
        assert results[row].token_id == clean[row].token_id and results[row].logprob == clean[row].logprob


def test_nothing_left_is_an_error_of_that_row():
    for params in ({"temperature": 0}, {"temperature": 1}):
        requests = [make_request(0, allowed_token_ids=[3], min_tokens=1, stop_token_ids=[3], **params), make_request(1)]
        results = make_sampler(requests, 8).sample(torch.zeros(2, 8), [0, 1], [0, 0])
        assert results[0].code == "no_candidate_token" and results[1].token_id in range(8)


def test_ids_out_of_range_are_refused_at_once():
    with pytest.raises(RequestError, match="allowed_token_ids has the token id 8"):
        make_sampler([make_request(allowed_token_ids=[8])], 8)


def test_no_rows_remove_and_unchanged_input():
    sampler = make_sampler([make_request(temperature=0, logit_bias={1: 50})], 8)
    assert sampler.sample(torch.zeros(0, 8), [], []) == []
    logits = torch.zeros(1, 8)
    sampler.sample(logits, [0], [0])
    assert torch.equal(logits, torch.zeros(1, 8))
    sampler.remove(0)
    sampler.remove(0)
    with pytest.raises(KeyError):
        sampler.sample(logits, [0], [0])


def test_raw_and_processed_logprobs():
    logits = torch.tensor([3.0, 2.0, 1.0, 0.0] + [-40.0] * 20)
    raw = [-0.4402, -1.4402, -2.4402, -3.4402]
    for params in ({"temperature": 0}, {"temperature": 2}, {"top_k": 1}, {"logit_bias": {2: 50}}, {"min_p": 0.9}):
        result = sample_one(logits, logprobs=4, **params)
        assert result.top_ids.tolist() == [0, 1, 2, 3] and result.top_logprobs == pytest.approx(raw, abs=1e-4)
        assert result.logprob == pytest.approx(raw[result.token_id], abs=1e-4) and result.rank == result.token_id + 1
    result = sample_one(logits, logprobs=4, temperature=2, logprobs_mode="processed")
    half = torch.log_softmax(torch.tensor([1.5, 1.0, 0.5, 0.0]), 0).tolist()
    assert result.top_logprobs == pytest.approx(half, abs=1e-4)
    pruned = sample_one(logits, logprobs=-1, top_k=1, logprobs_mode="processed")
    assert pruned.logprob == 0.0 and pruned.top_logprobs.tolist() == [0.0] + [-9999.0] * 23
    json.dumps(pruned.top_logprobs.tolist(), allow_nan=False)


def test_no_logprobs_unless_asked_for():
    result = sample_one(torch.zeros(4), temperature=0)
    assert result.logprob is None and result.top_ids is None and result.rank == 0
    assert sample_one(torch.zeros(4), temperature=0, logprobs=0).top_ids.shape == (0,)
