"""Cases 06-09: stop strings, stop ids, minimum and maximum length."""

import pytest

from deepinfer import LLM, SamplingParams
from tests.support.table_model import chain_table, column_table, perm_table, with_generation_config
from tests.support.table_tokenizer import EOS, FIRST_MERGED, MERGED, byte_ids

AB, CSTO, PDE = (FIRST_MERGED + MERGED.index(text) for text in ("ab", "cSTO", "Pde"))
STOP_TABLE = chain_table([10, AB, CSTO, PDE, 9, EOS])


@pytest.mark.parametrize(
    ("fields", "text", "reason", "num_tokens"),
    [
        ({"stop": ["STOP"]}, "abc", "STOP", 3),
        ({"stop": "STOP", "include_stop_str_in_output": True}, "abcSTOP", "STOP", 3),
        ({"stop": ["OPd", "STOP"]}, "abc", "STOP", 3),
        ({"stop": ["STOP", "OPd"], "include_stop_str_in_output": True}, "abcSTOP", "STOP", 3),
        ({"stop": ["bc"]}, "a", "bc", 2),
        ({"stop": ["a"]}, "", "a", 1),
        ({"stop": ["cSTO"]}, "ab", "cSTO", 2),
        ({"stop": ["abcSTOPde"]}, "", "abcSTOPde", 3),
        ({"stop": ["Pde"], "include_stop_str_in_output": True}, "abcSTOPde", "Pde", 3),
        ({"stop": ["STOx", "TOPx", "e"]}, "abcSTOPd", "e", 3),
    ],
)
def test_case_06_stop_strings_inside_and_across_tokens(table_llm, run, fields, text, reason, num_tokens):
    llm = table_llm(STOP_TABLE)
    params = SamplingParams(temperature=0, max_tokens=10, **fields)
    (output,) = run(llm, [[10]], params)
    completion = output.outputs[0]
    assert (completion.text, completion.finish_reason, completion.stop_reason) == (text, "stop", reason)
    assert len(completion.token_ids) == num_tokens
    deltas = list(llm.stream([[10]], params))
    assert "".join(delta.text for delta in deltas) == text
    assert (deltas[-1].finish_reason, deltas[-1].stop_reason) == ("stop", reason)


@pytest.mark.parametrize("skip", [True, False])
def test_case_06_a_special_stop_id_takes_no_text_away(table_llm, run, skip):
    fields = {"max_tokens": 10, "stop_token_ids": [9], "skip_special_tokens": skip}
    for more in ({}, {"stop": ["STOPx"]}, {"include_stop_str_in_output": True}):  # "STOP" is held back at first
        (output,) = run(table_llm(STOP_TABLE), [[10]], **fields, **more)
        completion = output.outputs[0]
        assert completion.text.removesuffix("<｜special_9｜>") == "abcSTOPde"
        assert (completion.finish_reason, completion.stop_reason) == ("stop", 9)
        assert completion.token_ids == [AB, CSTO, PDE, 9]


def test_case_06_the_prompt_is_no_part_of_a_stop(table_llm, run):
    llm = table_llm(chain_table([*byte_ids("xSTOP"), 9]))
    (output,) = run(llm, [byte_ids("xST")], max_tokens=3, stop=["STOP"])
    assert output.outputs[0].text == "OP" and output.outputs[0].finish_reason == "length"


def test_case_06_stops_of_multi_byte_characters(table_llm, run):
    llm = table_llm(chain_table([9, *byte_ids("a한é"), 10]))
    for stop, text in (("한", "a"), ("é", "a한"), ("한é", "a")):
        (output,) = run(llm, [[9]], max_tokens=6, stop=stop)
        assert (output.outputs[0].text, output.outputs[0].stop_reason) == (text, stop)


def test_case_06_a_held_back_tail_is_not_lost(table_llm, run):
    (output,) = run(table_llm(STOP_TABLE), [[10]], max_tokens=2, stop=["STOP"])
    assert output.outputs[0].text == "abcSTO" and output.outputs[0].finish_reason == "length"


def test_case_06_special_markers_as_stop_strings(table_llm, run):
    fields = {"max_tokens": 10, "stop": ["<｜special_9｜>"]}
    (shown,) = run(table_llm(STOP_TABLE), [[10]], skip_special_tokens=False, **fields)
    assert (shown.outputs[0].text, shown.outputs[0].stop_reason) == ("abcSTOPde", "<｜special_9｜>")


OTHER = 30
EOS_FIRST = column_table({EOS: 20.0, 7: 15.0, OTHER: 10.0}, rest=0.0)


@pytest.mark.parametrize("min_tokens", [0, 1, 4])
@pytest.mark.parametrize("temperature", [0, 0.01])
def test_case_07_exactly_min_tokens_before_eos(table_llm, run, min_tokens, temperature):
    llm = table_llm(EOS_FIRST, eos=[EOS, 7])
    fields = {"temperature": temperature, "max_tokens": 10, "min_tokens": min_tokens}
    (output,) = run(llm, [[10]], **fields)
    assert output.outputs[0].token_ids == [OTHER] * min_tokens + [EOS]
    assert output.outputs[0].finish_reason == "stop"
    (stopped,) = run(llm, [[10]], stop_token_ids=[OTHER], **fields)  # any stop id is held back
    assert OTHER not in stopped.outputs[0].token_ids and len(stopped.outputs[0].token_ids) == min_tokens + 1


def test_case_07_min_tokens_equal_to_max_tokens(table_llm, run):
    (output,) = run(table_llm(EOS_FIRST, eos=[EOS, 7]), [[10]], max_tokens=4, min_tokens=4)
    assert output.outputs[0].token_ids == [OTHER] * 4 and output.outputs[0].finish_reason == "length"


def test_case_07_eos_ids_of_generation_config_are_held_back_too(table_models, run, tmp_path):
    path = with_generation_config(table_models.path(EOS_FIRST), tmp_path / "model", eos_token_id=[EOS, 7])
    with LLM(path, numerics="fp32", max_model_len=64) as llm:
        held, free = (run(llm, [[10]], max_tokens=9, min_tokens=n, logit_bias={EOS: -100})[0] for n in (3, 0))
    assert held.outputs[0].token_ids == [OTHER] * 3 + [7] and free.outputs[0].token_ids == [7]


def test_case_07_a_stop_string_waits_for_min_tokens(table_llm, run):
    llm = table_llm(chain_table([10, *byte_ids("xSyzwQv"), 11]))
    for min_tokens, text, num_tokens in ((2, "x", 2), (3, "xSyzw", 6), (5, "xSyzw", 6), (6, "xSyzw", 6)):
        (output,) = run(llm, [[10]], max_tokens=8, min_tokens=min_tokens, stop=["S", "Q"])
        assert (output.outputs[0].text, len(output.outputs[0].token_ids)) == (text, num_tokens)
    llm = table_llm(STOP_TABLE)
    for min_tokens, num_tokens, reason in ((3, 3, "STOP"), (4, 5, None)):
        (output,) = run(llm, [[10]], max_tokens=12, min_tokens=min_tokens, stop="STOP")
        assert (len(output.outputs[0].token_ids), output.outputs[0].stop_reason) == (num_tokens, reason)
        assert output.outputs[0].finish_reason == "stop"


def test_case_08_min_tokens_does_not_count_the_prompt(table_llm, run):
    llm = table_llm(EOS_FIRST, eos=[EOS, 7])
    for prompt_len in (1, 40):
        (output,) = run(llm, [[10] * prompt_len], max_tokens=20, min_tokens=8)
        assert output.outputs[0].token_ids == [OTHER] * 8 + [EOS]


@pytest.mark.parametrize("fields", [{}, {"min_tokens": 4}, {"first_n_token_no_eos": 2}, {"stop_token_ids": [3]}])
@pytest.mark.parametrize("temperature", [0, 0.01])
def test_case_08_ignore_eos_bans_no_other_id(table_llm, run, fields, temperature):
    llm = table_llm(column_table({287: 20.0, EOS: 10.0}, rest=0.0))
    (output,) = run(llm, [[10]], temperature=temperature, max_tokens=6, ignore_eos=True, **fields)
    assert output.outputs[0].token_ids == [287] * 6 and output.outputs[0].finish_reason == "length"


def test_case_08_an_ignored_eos_may_be_produced(table_llm, run):
    llm = table_llm(EOS_FIRST)
    for fields in ({}, {"min_tokens": 6}):
        (output,) = run(llm, [[10]], max_tokens=6, ignore_eos=True, **fields)
        assert output.outputs[0].token_ids == [EOS] * 6 and output.outputs[0].finish_reason == "length"
    (held,) = run(llm, [[10]], max_tokens=6, ignore_eos=True, first_n_token_no_eos=2)
    assert held.outputs[0].token_ids == [7, 7, EOS, EOS, EOS, EOS]


@pytest.mark.parametrize("num_top", [0, 1, 3, -1])
def test_case_09_pure_scoring(table_llm, run, num_top):
    llm = table_llm(perm_table())
    prompts = [[10, 57, 36, 187, 5], [10], [10, 11]]
    scored = run(llm, prompts, max_tokens=0, prompt_logprobs=num_top)
    more = run(llm, prompts, max_tokens=1, prompt_logprobs=num_top)
    for prompt, zero, one in zip(prompts, scored, more, strict=True):
        assert zero.outputs[0].token_ids == [] and zero.outputs[0].text == ""
        assert zero.outputs[0].finish_reason == "length" and zero.error is None
        assert len(zero.prompt_logprobs) == len(prompt) and zero.prompt_logprobs[0] is None
        assert zero.prompt_logprobs == one.prompt_logprobs and len(one.outputs[0].token_ids) == 1
    values = [entry.chosen() for entry in scored[0].prompt_logprobs[1:]]
    assert [value.rank for value in values[:3]] == [1, 1, 1] and values[3].logprob < -19


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2}, {"stop": "x"}, {"ignore_eos": True}, {"temperature": 1}])
def test_case_09_zero_tokens_without_scores(table_llm, run, fields):
    (output,) = run(table_llm(perm_table()), [[10, 11]], max_tokens=0, **fields)
    completion = output.outputs[0]
    assert (completion.token_ids, completion.text, completion.finish_reason) == ([], "", "length")
    assert output.prompt_logprobs is None
