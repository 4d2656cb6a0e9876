"""Tables in the documentation equal what the code says."""

import re

import pytest

from deepinfer import RequestError, SamplingParams
from deepinfer.sampling_param_checks import CHECKS
from tests.doc import environment_table, memory_plan

# field -> last accepted and first refused values, as the docstring has them
LIMITS = {
    "n": ([1], [0, 1.0, True]),
    "temperature": ([0, 1e9], [-0.1, float("inf"), float("nan")]),
    "top_p": ([1e-9, 1], [0, 1.01]),
    "top_k": ([-1, 0, 1], [-2, 1.5]),
    "min_p": ([0, 1], [-0.01, 1.01]),
    "presence_penalty": ([-2, 2], [-2.01, 2.01]),
    "frequency_penalty": ([-2, 2], [-2.01, 2.01]),
    "repetition_penalty": ([0.01, 100], [0, 1e-44, 0.0099, 100.1]),
    "seed": ([-(2**70), 2**70, None], [1.0, "1"]),
    "max_tokens": ([0, 2**31 - 1, None], [-1, 2**31]),
    "min_tokens": ([0, 16], [-1, 17]),
    "stop": ([None, "a", ["a", "b"], []], ["", [""], [1]]),
    "stop_token_ids": ([None, [], [0]], [[-1], ["0"]]),
    "logprobs": ([None, -1, 0, 20], [-2, 0.5]),
    "prompt_logprobs": ([None, -1, 0, 20], [-2, 0.5]),
    "logprobs_mode": (["raw", "processed"], ["both"]),
    "logit_bias": ([None, {0: -100}, {0: 100}], [{0: 100.1}, {-1: 0}]),
    "allowed_token_ids": ([None, [0]], [[], [-1]]),
    "bad_words": ([None, "a"], ["", [""]]),
    "first_n_token_no_eos": ([0], [-1]),
    "golden_token_ids": ([None, [-1, 0]], [[-2]]),
}


def test_environment_table_is_up_to_date() -> None:
    text = environment_table.FILE.read_text(encoding="utf-8")
    assert text == environment_table.rewritten(text), "run: python -m tests.doc.environment_table"


def test_memory_plan_is_up_to_date() -> None:
    text = memory_plan.FILE.read_text(encoding="utf-8")
    assert text == memory_plan.rewritten(text), "run: python -m tests.doc.memory_plan"


def test_kernel_table_is_up_to_date() -> None:
    pytest.importorskip("tilelang")
    pytest.importorskip("triton")
    from tests.doc import kernel_table

    text = kernel_table.FILE.read_text(encoding="utf-8")
    assert text == kernel_table.rewritten(text), "run: python -m tests.doc.kernel_table"


def test_every_sampling_field_is_documented_with_its_limits() -> None:
    attributes = (SamplingParams.__doc__ or "").split("Attributes:")[1].split("Raises:")[0]
    documented = re.findall(r"^ {8}(\w+): ", attributes, flags=re.MULTILINE)
    assert sorted(documented) == sorted(CHECKS)
    for name, (accepted, refused) in LIMITS.items():
        for value in accepted:
            SamplingParams(**{name: value})
        for value in refused:
            with pytest.raises(RequestError, match=name):
                SamplingParams(**{name: value})
