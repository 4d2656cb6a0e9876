"""Output objects: lazy log-probability views and JSON."""

import json
import math
import pickle

import numpy as np
import pytest

from deepinfer.core.step_result import SampledToken
from deepinfer.errors import ConfigError, RequestError
from deepinfer.outputs import (
    CompletionOutput,
    Logprob,
    PromptLogprobList,
    RequestDelta,
    RequestFailure,
    RequestMetrics,
    RequestOutput,
    TokenLogprobs,
)


def _letters(token_id):
    return chr(97 + token_id)


def _tokens(num_top=2):
    top_ids, top = np.array([4, 2, 0], np.int32)[:num_top], np.array([-0.1, -2.5, -math.inf], np.float32)[:num_top]
    samples = [SampledToken(2, -2.5, 2, top_ids, top), SampledToken(7, -math.inf, 9, top_ids, top)]
    return TokenLogprobs.from_samples(samples, _letters)


def test_token_logprobs_are_a_list_of_mappings():
    logprobs = _tokens()
    assert len(logprobs) == 2
    assert dict(logprobs[0]) == {4: Logprob(np.float32(-0.1).item(), 1, "e"), 2: Logprob(-2.5, 2, "c")}
    assert list(logprobs[1]) == [4, 2, 7] and len(logprobs[1]) == 3
    assert logprobs[1][7] == Logprob(-9999.0, 9, "h") and logprobs[1].chosen().rank == 9
    assert 3 not in logprobs[0] and logprobs[-1] == logprobs[1] and logprobs[:1] == [logprobs[0]]
    with pytest.raises(KeyError):
        logprobs[0][3]
    with pytest.raises(IndexError):
        logprobs[2]
    assert logprobs.cumulative() == pytest.approx(-2.5 - 9999.0)


def test_no_alternatives_and_no_tokens():
    only = TokenLogprobs.from_samples([SampledToken(3, -1.0, 5)])
    assert only == [{3: Logprob(-1.0, 5, None)}]
    assert TokenLogprobs.from_samples([]) == [] and TokenLogprobs.empty().cumulative() == 0.0


def test_prompt_logprobs_list():
    entries = PromptLogprobList(
        np.array([5, 1, 2], np.int32),
        1,
        np.array([-1.0, -2.0], np.float32),
        np.array([1, 3], np.int32),
        np.array([[1], [0]], np.int32),
        np.array([[-1.0], [-0.5]], np.float32),
    )
    assert entries[0] is None and len(entries) == 3
    assert dict(entries[1]) == {1: Logprob(-1.0, 1)} and dict(entries[-1]) == {0: Logprob(-0.5, 1), 2: Logprob(-2.0, 3)}
    assert entries[1:] == [entries[1], entries[2]]
    with pytest.raises(IndexError):
        entries[3]


def test_whole_vocabulary_is_a_view_on_one_array():
    rows = np.log(np.array([[0.1, 0.4, 0.4, 0.1]], np.float32))
    entries = PromptLogprobList(np.array([0, 2], np.int32), 1, rows[:, 2], np.array([2], np.int32), None, rows)
    entry = entries[1]
    assert np.shares_memory(entry.row, rows) and len(entry) == 4 and list(entry) == [0, 1, 2, 3]
    assert [entry[token_id].rank for token_id in range(4)] == [3, 1, 2, 4]
    assert 4 not in entry and -1 not in entry and entry.chosen() == entry[2]


def test_everything_is_json_safe():
    whole = np.array([[-math.inf, 0.0]], np.float32)
    prompt = PromptLogprobList(np.array([1, 1], np.int32), 1, whole[:, 1], np.array([1], np.int32), None, whole)
    completion = CompletionOutput(0, "ch", [2, 7], -3.0, _tokens(3), "length", None)
    output = RequestOutput("r", "p", [1, 1], [completion], True, prompt, None, 0, RequestMetrics(arrival_time=1.0))
    delta = RequestDelta("r", 0, 0, "x", [2], _tokens(3), "stop", "STOP")
    failed = RequestOutput.failed("r", RequestError("prompt is empty", code="empty_prompt"), "")
    for item in (output, delta, failed):
        assert json.loads(json.dumps(item.to_dict(), allow_nan=False))["request_id"] == "r"
    assert output.to_dict()["prompt_logprobs"][1]["0"]["logprob"] == -9999.0


def test_failure_has_a_stable_code():
    failed = RequestOutput.failed("r", RequestError("prompt is empty", code="empty_prompt"))
    assert failed.error == RequestFailure("empty_prompt", "prompt is empty") and str(failed.error) == "prompt is empty"
    assert failed.outputs[0].finish_reason == "error" and failed.finished and failed.outputs[0].finished()
    assert RequestFailure.from_exception(ConfigError("x")).code == "config"


def test_outputs_survive_pickling_and_are_frozen():
    output = RequestOutput(
        "r", None, [1], [CompletionOutput(logprobs=TokenLogprobs.from_samples([SampledToken(3, -1.0, 5)]))]
    )
    assert pickle.loads(pickle.dumps(output)) == output
    with pytest.raises(AttributeError):
        output.finished = False


def test_time_to_first_token():
    assert RequestMetrics(arrival_time=1.0, first_token_time=1.5).time_to_first_token == 0.5
    assert RequestMetrics().time_to_first_token is None
