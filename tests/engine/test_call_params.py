"""Sampling parameters as a caller may give them."""

import pytest

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.engine.call_params import params_per_prompt
from tests.support.golden_case import GOLDEN

DEFAULT = SamplingParams(temperature=0.5)
GOOD = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)


def test_one_for_all_or_one_per_prompt() -> None:
    assert params_per_prompt(None, 2, DEFAULT) == [DEFAULT] * 2
    assert params_per_prompt({"top_k": 3}, 2, DEFAULT) == [SamplingParams(top_k=3)] * 2
    assert params_per_prompt([None, {"top_k": 3}], 2, DEFAULT) == [DEFAULT, SamplingParams(top_k=3)]


@pytest.mark.parametrize("params", [5, "greedy", iter([GOOD]), object()])
def test_other_things_are_refused_with_what_is_expected(params: object) -> None:
    with pytest.raises(RequestError, match=f"sampling_params is a {type(params).__name__}; expected SamplingParams"):
        params_per_prompt(params, 1, DEFAULT)


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"temprature": 1}, 5])
def test_a_wrong_entry_fails_its_own_request(wrong: object) -> None:
    good, bad = params_per_prompt([GOOD, wrong], 2, DEFAULT)
    assert good == GOOD and isinstance(bad, RequestError) and bad.code == "invalid_sampling_params"
    with pytest.raises((RequestError, TypeError)):
        SamplingParams(**wrong) if isinstance(wrong, dict) else params_per_prompt(wrong, 2, DEFAULT)


def test_a_wrong_entry_in_a_call() -> None:
    talk = [{"role": "user", "content": "hi"}]
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=4) as llm:
        good, bad = llm.generate([[5], [6]], [GOOD, {"temperature": -1}], use_tqdm=False)
        assert good.error is None and len(good.outputs[0].token_ids) == 2
        assert bad.error.code == "invalid_sampling_params" and "temperature=-1" in bad.error.message
        with pytest.raises(RequestError, match="prompt 1: temperature=-1"):
            llm.generate([[5], [6]], [GOOD, {"temperature": -1}], use_tqdm=False, strict=True)
        with pytest.raises(RequestError, match="sampling_params is a int"):
            llm.generate([[5]], 5, use_tqdm=False)
        errors = [delta.error for delta in llm.stream([[5], [6]], [GOOD, {"n": 0}]) if delta.error]
        assert [error.code for error in errors] == ["invalid_sampling_params"]
    with LLM(numerics="fp32") as llm:
        good, bad = llm.chat([talk, talk], [GOOD, {"temperature": -1}], use_tqdm=False)
        assert good.error is None and "temperature=-1" in bad.error.message
        (refused,) = [delta for delta in llm.stream_chat([talk, talk], [GOOD, {"temperature": -1}]) if delta.error]
        assert refused.prompt_index == 1 and "temperature=-1" in refused.error.message
