"""Cases 14-17: errors of single prompts, lengths at the limit, order of results, requests that never fit."""

import time

import pytest

from deepinfer import LLM, RequestError, SamplingParams
from tests.support.table_model import perm_table, perm_tokens


def ids(length, seed=0):
    return [3 + (seed + 7 * place * place) % 280 for place in range(length)]


BAD = {
    "over-long": (ids(200), "prompt_too_long"),
    "one too long": (ids(65), "prompt_too_long"),
    "long text": ("a" * 500, "prompt_too_long"),
    "empty": ([], "empty_prompt"),
    "out of range": ([3, 288], "token_id_out_of_range"),
    "negative": ([-1], "token_id_out_of_range"),
    "not integers": ([1.5], "invalid_token_id"),
    "no prompt": ({"prompt_ids": [1]}, "invalid_prompt"),
    "none": (None, "invalid_prompt"),
}


def test_case_14_bad_prompts_harm_no_other(random_llm, run):
    llm = random_llm()
    good = [ids(5), ids(6, 1), ids(64 - 4, 2)]
    prompts = [good[0], *(prompt for prompt, _ in BAD.values()), good[1], ids(200), good[2]]
    fields = {"max_tokens": 4, "ignore_eos": True, "logprobs": 2}
    outputs = run(llm, prompts, **fields)
    assert len(outputs) == len(prompts)
    for output, (prompt, code) in zip(outputs[1:], BAD.values(), strict=False):
        assert output.error.code == code and output.outputs[0].finish_reason == "error" and output.finished
        assert output.outputs[0].token_ids == [] and output.outputs[0].text == ""
        if code == "prompt_too_long":  # names limit and length, cuts nothing
            assert "64" in str(output.error) and str(max(65, len(prompt) + isinstance(prompt, str))) in str(
                output.error
            )
    for place, prompt in ((0, good[0]), (len(BAD) + 1, good[1]), (len(BAD) + 3, good[2])):
        (alone,) = run(llm, [prompt], **fields)
        assert outputs[place].error is None and outputs[place].prompt_token_ids == prompt
        assert outputs[place].outputs[0].token_ids == alone.outputs[0].token_ids
        assert outputs[place].outputs[0].logprobs == alone.outputs[0].logprobs


def test_case_14_strict_raises_before_any_work(random_llm):
    llm = random_llm()
    before = llm.stats().num_steps
    for prompt, _ in BAD.values():
        with pytest.raises(RequestError, match="prompt 1"):
            llm.generate([ids(5), prompt], use_tqdm=False, strict=True)
    assert llm.stats().num_steps == before and llm.stats().num_waiting == 0


@pytest.mark.parametrize("max_tokens", [0, 1, 4, None])
def test_case_15_lengths_at_the_limit(random_llm, run, max_tokens):
    llm = random_llm()
    prompts = [ids(length) for length in (62, 63, 64, 65)]
    outputs = run(llm, prompts, max_tokens=max_tokens, ignore_eos=True, prompt_logprobs=1)
    wanted = 64 if max_tokens is None else max_tokens
    for prompt, output in zip(prompts[:3], outputs, strict=False):
        assert output.error is None and output.outputs[0].finish_reason == "length"
        assert len(output.outputs[0].token_ids) == min(wanted, 64 - len(prompt))
        assert len(output.prompt_logprobs) == len(prompt)
        assert all(token in entry for token, entry in zip(prompt[1:], output.prompt_logprobs[1:], strict=True))
    assert outputs[3].error.code == "prompt_too_long"
    ((total, _, values),) = llm.score([prompts[2][:60]], [prompts[2][60:]])
    assert values == [entry.chosen().logprob for entry in outputs[2].prompt_logprobs[60:]]


def test_case_15_a_small_token_budget_changes_no_limit(random_llm, run):
    llm = random_llm(max_num_batched_tokens=7, max_num_seqs=2)
    outputs = run(llm, [ids(length) for length in (62, 63, 64, 65)], max_tokens=4, ignore_eos=True)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [2, 1, 0, 0]


def test_case_16_order_count_and_duplicates(random_llm, run):
    llm = random_llm(max_num_seqs=2)
    prompts = ["", "b", "a", "b", "a" * 500, "", [], ids(9), *(ids(1 + 5 * n, n) for n in range(8)), ids(9)]
    fields = [SamplingParams(temperature=0, max_tokens=1 + (3 * n) % 7, ignore_eos=True) for n in range(len(prompts))]
    outputs = run(llm, prompts, fields)
    assert [output.prompt for output in outputs] == [p if isinstance(p, str) else None for p in prompts]
    assert [place for place, output in enumerate(outputs) if output.error is not None] == [4, 6]
    for place, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        if isinstance(prompt, list):
            assert output.prompt_token_ids == prompt
        if output.error is None:
            assert len(output.outputs[0].token_ids) == 1 + (3 * place) % 7
    assert len({output.request_id for output in outputs}) == len(prompts)
    same = run(llm, ["b", "a", "b", "", "b", ""], max_tokens=5, ignore_eos=True)
    tokens = [tuple(output.outputs[0].token_ids) for output in same]
    assert tokens[0] == tokens[2] == tokens[4] and tokens[3] == tokens[5] and len(set(tokens)) == 3
    assert same[3].prompt_token_ids == [0]  # an empty text is BOS alone


def test_case_16_every_way_to_ask_for_nothing(random_llm):
    llm = random_llm()
    assert llm.generate([]) == [] and llm.generate(prompt_token_ids=[]) == []
    assert list(llm.generate_iter([])) == [] and list(llm.stream([])) == [] and llm.score([], []) == []


def test_case_17_what_never_fits_ends_with_its_own_error(table_models, run):
    path = table_models.path(perm_table())
    options = {"numerics": "fp32", "max_model_len": 64, "block_size": 8}
    with LLM(path, **options) as llm:
        block_bytes = llm._runtime.worker.memory_plan.block_bytes
    started = time.monotonic()
    with LLM(path, kv_cache_bytes=4 * block_bytes, **options) as llm:
        outputs = run(llm, [[10] * 10, [10] * 40, [10] * 10, [10] * 33, [10] * 32], max_tokens=4, ignore_eos=True)
        for place in (0, 2):
            assert outputs[place].outputs[0].token_ids == perm_tokens(10, 4)
        for place, length in ((1, "40"), (3, "33")):
            assert outputs[place].error.code == "capacity_exceeded"
            assert length in str(outputs[place].error) and "32" in str(outputs[place].error)
        assert outputs[4].error is None and len(outputs[4].outputs[0].token_ids) == 1
        (grown,) = run(llm, [[10] * 30], max_tokens=20, ignore_eos=True)
        assert (grown.outputs[0].finish_reason, grown.outputs[0].stop_reason) == ("length", "cache_capacity")
        assert grown.outputs[0].token_ids == perm_tokens(10, 3)
        crowd = run(llm, [[10 + n] * 20 for n in range(6)], max_tokens=9, ignore_eos=True)
        assert [len(output.outputs[0].token_ids) for output in crowd] == [9] * 6
        stats = llm.stats()
        assert stats.num_free_blocks == 4 and stats.num_running == stats.num_waiting == 0
    assert time.monotonic() - started < 60
