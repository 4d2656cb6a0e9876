"""Masks and own processors in the sampler: their place in the order, and that a token is fed once."""

import numpy as np
import pytest
import torch

from deepinfer import RequestError, SamplingParams
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.sequence_end import SequenceEnd
from deepinfer.grammar.constraint import parse_constraint
from deepinfer.sampling.sampler import Sampler
from tests.grammar.conftest import EOS

NUM_IDS = 259


@pytest.fixture
def start(byte_backend):
    """start(structured_outputs, **params) -> sampler with that one sequence, number 1."""

    def make(given, eos=(EOS, 258), **params):
        constraint = parse_constraint(given, NUM_IDS) if given is not None else None
        compiled = byte_backend.compile(constraint) if constraint else None
        all_params = SamplingParams(**{"temperature": 0.0, **params})
        request = EngineRequest(
            seq_id=1,
            request_id="r",
            choice=0,
            prompt_token_ids=np.array([7, 8], np.int32),
            params=all_params,
            seed=0,
            max_tokens=100,
            stop_token_ids=() if all_params.ignore_eos else eos,
            score_start=None,
            score_top_k=0,
            constraint=constraint,
            new_matcher=(lambda: compiled.new_matcher(constraint)) if compiled else None,
        )
        sampler = Sampler(NUM_IDS, eos)
        sampler.add(request)
        return sampler

    return make


def step(sampler, index, generated, *wanted):
    """One greedy step with logits that prefer `wanted`, best first."""
    logits = torch.zeros(1, NUM_IDS)
    for place, token_id in enumerate(wanted):
        logits[0, token_id] = 10.0 - place
    return sampler.sample(logits, [1], [index], [generated])[0]


def run(sampler, *preferred, steps=20):
    """Greedy tokens until EOS or an exception; every step prefers the same ids."""
    generated = []
    for index in range(steps):
        outcome = step(sampler, index, generated, *preferred)
        if isinstance(outcome, Exception):
            return generated, outcome
        generated.append(outcome.token_id)
        if outcome.token_id in (EOS, 258):
            break
    return generated, None


def test_greedy_under_a_mask(start):
    generated, _ = run(start({"regex": "ab+c"}), ord("c"), ord("b"), EOS)
    assert bytes(generated[:-1]) == b"abc" and generated[-1] == EOS


def test_complete_flag(start):
    sampler = start({"regex": "ab?"})
    first = step(sampler, 0, [], ord("a"))
    assert first.token_id == ord("a") and first.grammar_complete is True
    assert step(start({"regex": "ab"}), 0, []).grammar_complete is False
    assert step(start(None), 0, [], 3).grammar_complete is None


def test_logprobs_stay_raw_and_processed_ones_see_the_mask(start):
    for mode in ("raw", "processed"):
        token = step(start({"regex": "a"}, logprobs=1, logprobs_mode=mode), 0, [], ord("z"))
        assert token.token_id == ord("a") and token.grammar_complete is True
        assert (token.logprob == 0.0) == (mode == "processed")


def test_a_repeated_step_feeds_a_token_once(start):
    """A step may be computed again after an interruption, a preempted sequence goes on where it was."""
    sampler = start({"regex": "abcd"})
    assert step(sampler, 0, []).token_id == ord("a")
    assert step(sampler, 1, [ord("a")]).token_id == ord("b")
    assert step(sampler, 1, [ord("a")]).token_id == ord("b")
    assert step(sampler, 0, []).token_id == ord("a")
    assert step(sampler, 3, list(b"abc")).token_id == ord("d")  # catches up from the history


def test_nothing_left_behind_a_whole_value_ends_it(start):
    for params in ({"ignore_eos": True}, {"min_tokens": 50}, {"first_n_token_no_eos": 50}, {"bad_words": []}):
        banned = {} if "bad_words" not in params else {"logit_bias": {}, "allowed_token_ids": list(b"true")}
        given = params if not banned else {**banned}
        generated, end = run(start({"json": {"type": "boolean"}}, max_tokens=None, **given), EOS, ord("t"))
        assert bytes(generated) == b"true" and isinstance(end, SequenceEnd)


def test_nothing_left_inside_a_value_is_an_error(start):
    generated, error = run(start({"regex": "abc"}, allowed_token_ids=list(b"ab")))
    assert bytes(generated) == b"ab" and error.code == "no_candidate_token"


def test_ignore_eos_lets_a_value_go_on(start):
    generated, end = run(start({"regex": "a{2,5}"}, ignore_eos=True), EOS, 258)
    assert bytes(generated) == b"aaaaa" and isinstance(end, SequenceEnd)


def test_every_eos_waits_for_the_value(start):
    generated, _ = run(start({"regex": "abc"}, logit_bias={258: 100.0, EOS: 50.0}), 258)
    assert generated == [*b"abc", 258]


def test_user_stop_ids_wait_for_the_value_too(start):
    """A stop id that is text of the value ends it only where the value is whole."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}, "required": ["a"]}
    for min_tokens in (0, 20):
        sampler = start(
            {"json": schema, "whitespace_limit": 0}, stop_token_ids=[*b"}x:"], min_tokens=min_tokens, max_tokens=None
        )
        generated, stops = [], []
        for index, wanted in enumerate(b'{"a":"x}x"}'):
            token = step(sampler, index, generated, wanted)
            generated.append(token.token_id)
            stops.append(token.stops)
        assert bytes(generated) == b'{"a":"x}x"}'
        assert stops == [False] * 10 + [min_tokens == 0]


def test_user_stop_ids_act_in_the_free_text(start):
    given = {"regex": "ab", "trigger_token_ids": [5, 6]}
    sampler = start(given, stop_token_ids=[3, 6], min_tokens=1)
    assert step(sampler, 0, [], 3, 4).token_id == 4  # banned before min_tokens
    assert step(sampler, 1, [4], 3).stops is True
    assert step(sampler, 1, [4], 5).stops is False
    assert step(sampler, 2, [4, 5], 6).stops is False  # completes the trigger


def test_forced_tokens_must_fit(start):
    sampler = start({"regex": "ab"}, golden_token_ids=[ord("a"), ord("x")])
    assert step(sampler, 0, []).token_id == ord("a")
    error = step(sampler, 1, [ord("a")])
    assert isinstance(error, RequestError) and error.code == "grammar_violation" and str(ord("x")) in str(error)


def test_trigger_leaves_the_text_before_it_free(start):
    sampler = start({"regex": "ab", "trigger_token_ids": [5, 6], "bound_token_id": 9})
    assert [step(sampler, 0, [], 3).token_id, step(sampler, 1, [3], 9).token_id] == [3, 9]
    generated = [3, 9]
    for index in range(2, 7):
        generated.append(step(sampler, index, generated, 200).token_id)
    assert generated[2:6] == [5, 6, *b"ab"] and generated[6] in (EOS, 258)


def test_processors_see_and_change_logits(start):
    seen = []

    def short(generated_ids, row):
        seen.append((generated_ids, row.shape, row.dtype))
        row[5] = 100.0
        return row

    def long(prompt_ids, generated_ids, row):
        seen.append((prompt_ids, generated_ids))
        return row + 0.0

    sampler = start(None, logits_processors=[short, long])
    assert step(sampler, 0, [], 3).token_id == 5 and step(sampler, 1, [5], 3).token_id == 5
    assert seen[0] == ([], (NUM_IDS,), torch.float32) and seen[1] == ([7, 8], []) and seen[3] == ([7, 8], [5])


def test_processors_cannot_lift_a_ban(start):
    def lift(generated_ids, row):
        return torch.full_like(row, 3.0)

    assert step(start({"regex": "q"}, logits_processors=[lift]), 0, []).token_id == ord("q")
    assert step(start(None, allowed_token_ids=[9], logits_processors=[lift]), 0, []).token_id == 9


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (lambda ids, row: 1 / 0, "ZeroDivisionError"),
        (lambda ids, row: None, "NoneType"),
        (lambda ids, row: row[:3], "shape"),
        (lambda ids, row: row * float("nan"), "NaN"),
        (lambda ids, row: row + float("inf"), "inf"),
        (lambda: None, "TypeError"),
    ],
)
def test_a_wrong_processor_fails_its_request(start, processor, message):
    sampler = start(None, logits_processors=[processor])
    error = step(sampler, 0, [])
    assert isinstance(error, RequestError) and error.code == "logits_processor_error" and message in str(error)
