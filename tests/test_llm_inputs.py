"""Inputs of a batch on a real (random, tiny) model: order, limits, capacity, errors of single prompts."""

from collections.abc import Iterator

import pytest

from deepinfer import LLM, ConfigError, RequestError, SamplingParams
from tests.support.golden_case import GOLDEN

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_model_len=64, max_num_seqs=2, block_size=8) as llm:
        yield llm


def alone(llm: LLM, prompt: object, params: SamplingParams = GREEDY) -> list[int]:
    (output,) = llm.generate(prompt, params, use_tqdm=False)
    assert output.error is None
    return output.outputs[0].token_ids


def test_one_bad_prompt_harms_no_other(llm: LLM) -> None:
    prompts = [[5] * 5, [5] * 200, [6] * 6, [5] * 65]
    outputs = llm.generate(prompts, GREEDY, use_tqdm=False)
    assert [output.error is None for output in outputs] == [True, False, True, False]
    for output, length in ((outputs[1], "200"), (outputs[3], "65")):
        assert length in str(output.error) and "64" in str(output.error)
        assert output.finished and output.metrics.batch_invariant is True
        assert output.outputs[0].finish_reason == "error" and output.outputs[0].token_ids == []
    for place in (0, 2):
        assert outputs[place].outputs[0].token_ids == alone(llm, prompts[place])
    before = llm.stats().num_steps
    with pytest.raises(RequestError, match="prompt 1: .*200"):
        llm.generate(prompts, GREEDY, use_tqdm=False, strict=True)
    assert llm.stats().num_steps == before


@pytest.mark.parametrize("max_tokens", [1, 4])
def test_lengths_around_the_limit(llm: LLM, max_tokens: int) -> None:
    prompts = [[7] * length for length in (62, 63, 64, 65)]
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, prompt_logprobs=0)
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [min(2, max_tokens), 1, 0, 0]
    assert [output.outputs[0].finish_reason for output in outputs] == ["length", "length", "length", "error"]
    assert [len(output.prompt_logprobs) for output in outputs[:3]] == [62, 63, 64]
    assert outputs[2].prompt_logprobs[63].chosen().logprob < 0


def test_order_count_and_duplicates(llm: LLM) -> None:
    prompts = ["", "b", "a", "b", "a" * 500, "", [], [9], {"prompt": "a"}, {"prompt_token_ids": [9]}]
    prompts += [[place + 3] * (1 + place * 3) for place in range(8)]
    outputs = llm.generate(prompts, GREEDY, use_tqdm=False)
    assert len(outputs) == len(prompts)
    assert [output.prompt for output in outputs[:6]] == ["", "b", "a", "b", "a" * 500, ""]
    texts = [output.outputs[0].token_ids for output in outputs]
    assert texts[0] == texts[5] and len(texts[0]) == 4  # an empty text is BOS alone
    assert outputs[0].prompt_token_ids == [0]
    assert texts[1] == texts[3] and texts[2] == texts[8] and texts[7] == texts[9]
    assert [place for place, output in enumerate(outputs) if output.error] == [4, 6]
    assert outputs[6].error.code == "empty_prompt"
    for output, ids in zip(outputs[10:], prompts[10:], strict=True):
        assert output.prompt_token_ids == ids and output.prompt is None
        assert output.outputs[0].token_ids == alone(llm, ids)


def test_empty_call_and_keyword_of_older_scripts(llm: LLM) -> None:
    assert llm.generate([], use_tqdm=True) == []
    first, second = llm.generate(prompt_token_ids=[[5], [6]], sampling_params=GREEDY, use_tqdm=False)
    assert first.outputs[0].token_ids == alone(llm, [5]) and second.outputs[0].token_ids == alone(llm, [6])
    for arguments in ({"prompts": None}, {"prompts": ["a"], "sampling_params": [GREEDY, GREEDY]}):
        with pytest.raises(RequestError):
            llm.generate(**arguments, use_tqdm=False)


def test_pure_scoring_request(llm: LLM) -> None:
    params = SamplingParams(max_tokens=0, prompt_logprobs=1)
    (output,) = llm.generate([[5, 6, 7, 8, 9]], params, use_tqdm=False)
    assert output.outputs[0].token_ids == [] and output.outputs[0].finish_reason == "length"
    assert output.prompt_logprobs[0] is None
    assert all(token in output.prompt_logprobs[place] for place, token in enumerate([6, 7, 8, 9], start=1))
    (more,) = llm.generate([[5, 6, 7, 8, 9]], params.replace(max_tokens=1), use_tqdm=False)
    assert more.prompt_logprobs == output.prompt_logprobs and len(more.outputs[0].token_ids) == 1


def test_no_room_for_one_block_is_an_error_at_start() -> None:
    with pytest.raises(ConfigError, match="kv_cache_bytes"):
        LLM(GOLDEN / "nano-s1", numerics="fp32", max_model_len=64, block_size=8, kv_cache_bytes=1)


def test_a_small_cache_preempts_and_gives_the_same_tokens(llm: LLM) -> None:
    prompts = [[place] * 9 for place in range(3, 7)]
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True, prompt_logprobs=0)
    expected = llm.generate(prompts, params, use_tqdm=False)
    block_bytes = llm._runtime.worker.memory_plan.block_bytes
    options = {"numerics": "fp32", "max_model_len": 64, "block_size": 8, "kv_cache_bytes": 5 * block_bytes}
    with LLM(GOLDEN / "nano-s1", max_num_seqs=4, **options) as small:
        assert small.stats().num_blocks == 5
        outputs = small.generate([*prompts, [3] * 50], params, use_tqdm=False)
        stats = small.stats()
    assert stats.num_preemptions > 0 and stats.num_free_blocks == 5
    assert outputs[-1].error.code == "capacity_exceeded" and "50" in str(outputs[-1].error)
    for output, reference in zip(outputs, expected, strict=False):
        assert output.outputs[0].token_ids == reference.outputs[0].token_ids
        assert output.prompt_logprobs == reference.prompt_logprobs
