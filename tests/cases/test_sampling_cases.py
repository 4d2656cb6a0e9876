"""Cases 01-05: sampling parameters, end to end on checkpoints with known logits."""

import json

import pytest

from deepinfer import SamplingParams
from tests.support.table_model import SOFT_IDS, chain_table, column_table, perm_table, perm_tokens, soft_table
from tests.support.table_tokenizer import FIRST_MERGED, MERGED, byte_ids

ELEVEN = [57, 36, 187, 174, 109, 40, 207, 18]
TEMPERATURES = [0, 5e-324, 1e-38, 1e-8, 1e-6, 9.9e-6, 1e-5, 1.1e-5, 1e-4, 1e-3, 0.01]
FILTERS = [{}, {"top_p": 0.9}, {"top_k": 5}, {"min_p": 0.1}, {"top_p": 0.5, "top_k": 3, "min_p": 0.01}]


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_case_01_tiny_temperatures_follow_the_table(table_llm, run, numerics):
    llm = table_llm(perm_table(), numerics=numerics)
    params = [
        SamplingParams(temperature=temperature, max_tokens=8, logprobs=2, logprobs_mode=mode, **filters)
        for temperature in TEMPERATURES
        for filters in FILTERS
        for mode in ("raw", "processed")
    ]
    for output in run(llm, [[10]] * len(params), params):
        assert output.outputs[0].token_ids == ELEVEN
        json.dumps(output.to_dict(), allow_nan=False)


@pytest.mark.parametrize("margin", [1e4, 1e30, 3e38])
def test_case_01_huge_logits_do_not_overflow(table_llm, run, margin):
    margin = float(column_table({0: margin})[0, 0].bfloat16())
    llm = table_llm(perm_table(margin))
    params = [SamplingParams(temperature=t, max_tokens=8, logprobs=3) for t in (0, 1e-5, 1e-4, 1, 100)]
    for output in run(llm, [[10]] * len(params), params):
        assert output.outputs[0].token_ids == ELEVEN
        json.dumps(output.to_dict(), allow_nan=False)


def test_case_02_a_seeded_request_ignores_its_neighbours(table_llm, run):
    llm = table_llm(soft_table())
    seeded = SamplingParams(seed=42, max_tokens=10)
    free = SamplingParams(max_tokens=10)
    short = SamplingParams(max_tokens=1)
    other = SamplingParams(seed=7, max_tokens=10, top_p=0.8, temperature=0.5)
    tokens = []
    for place, params in (
        (0, [seeded]),
        (0, [seeded, free]),
        (0, [seeded] + [free] * 7),
        (7, [free] * 7 + [seeded]),
        (1, [short, seeded]),
        (1, [other, seeded, free.replace(temperature=0), free]),
    ):
        outputs = run(llm, [[10]] * len(params), params)
        tokens.append(outputs[place].outputs[0].token_ids)
    assert all(item == tokens[0] for item in tokens) and len(set(tokens[0])) > 1


def cat_table():
    """Behind "x": " cat" in one token, else a blank and c, a, t as bytes; what is banned becomes "r"."""
    start, blank, car = byte_ids("x"), byte_ids(" "), byte_ids("car")
    cat = byte_ids("cat")
    table = chain_table([*start, *blank, *cat, 9])
    table[:, start] = 0.0
    table[FIRST_MERGED + MERGED.index(" cat"), start[0]] = 20.0
    table[blank[0], start[0]] = 19.0
    table[car[2], cat[1]] = 15.0
    return table


@pytest.mark.parametrize("words", [["cat"], "cat", ["dog", "cat"], ["ca", "cat"]])
def test_case_03_neither_form_of_a_banned_word_appears(table_llm, run, words):
    llm = table_llm(cat_table())
    banned = [SamplingParams(temperature=t, max_tokens=6, bad_words=words) for t in (0, 0, 0.01, 0.01)]
    free = SamplingParams(temperature=0, max_tokens=6)
    outputs = run(llm, [byte_ids("x"), byte_ids("x ")] * 3, [*banned, free, free])
    assert outputs[4].outputs[0].text.startswith(" cat") and outputs[5].outputs[0].text.startswith("cat")
    for output in outputs[:4]:
        assert output.error is None and "cat" not in output.outputs[0].text


@pytest.mark.parametrize("ids", [[FIRST_MERGED + 1, *byte_ids("t")], [FIRST_MERGED, *byte_ids("at")]])
def test_case_03_other_splits_of_a_banned_word(table_llm, run, ids):
    """The word spelt by tokens that the tokenizer would not choose: " ca" + "t", " c" + "a" + "t"."""
    llm = table_llm(chain_table([9, *ids, 10]))
    assert run(llm, [[9]], max_tokens=5)[0].outputs[0].text.startswith(" cat")
    assert "cat" not in run(llm, [[9]], max_tokens=5, bad_words=["cat"])[0].outputs[0].text


@pytest.mark.parametrize("words", [[" "], ["\t"], ["cat", "\n \t"], ["\u3000"]])
def test_case_03_white_space_is_an_error_of_one_request(table_llm, run, words):
    llm = table_llm(perm_table())
    params = [SamplingParams(temperature=0, max_tokens=8, bad_words=item) for item in ([], words, ["cat"])]
    good, bad, other = run(llm, [[10]] * 3, params)
    assert bad.error.code == "invalid_bad_words" and repr(words[-1]) in str(bad.error)
    assert good.outputs[0].token_ids == other.outputs[0].token_ids == ELEVEN


def test_case_03_the_ban_holds_for_every_completion(table_llm, run):
    params = SamplingParams(n=3, temperature=1, max_tokens=6, bad_words=["cat"], seed=1)
    for output in run(table_llm(cat_table()), [byte_ids("x"), byte_ids("x ")], params):
        assert output.error is None and len(output.outputs) == 3
        assert all("cat" not in completion.text for completion in output.outputs)


A, B, C = 20, 30, 40
PENALTY_LOGITS = {A: 3.0, B: 2.90625, C: -1.0}  # 2.9 as BF16 holds it


def test_case_04_penalties_count_the_right_tokens(table_llm, run):
    llm = table_llm(column_table(PENALTY_LOGITS))

    def tokens(prompt, count=1, **penalties):
        return run(llm, [prompt], max_tokens=count, **penalties)[0].outputs[0].token_ids

    assert tokens([A], repetition_penalty=1.2) == [B]  # prompt tokens count for repetition, from the first step
    assert tokens([A], presence_penalty=0.5) == tokens([A] * 9, frequency_penalty=2.0) == [A]  # and for nothing else
    assert tokens([A], 2, frequency_penalty=0.5) == tokens([A], 2, presence_penalty=0.5) == [A, B]
    assert tokens([A], 4, frequency_penalty=0.5) == [A, B, A, B]  # 3, 2.906, 2.5 (1 a), 2.406 (1 b): counts grow
    assert tokens([9], 3, frequency_penalty=-2.0) == [A, A, A]
    assert tokens([9], 2, repetition_penalty=1.2) == [A, B]  # generated tokens count too
    assert tokens([B], 2, repetition_penalty=0.5) == [B, B]


def test_case_04_negative_logits_are_multiplied(table_llm, run):
    llm = table_llm(column_table(PENALTY_LOGITS))
    fields = {"repetition_penalty": 1.2, "max_tokens": 1, "logprobs": -1, "logprobs_mode": "processed"}
    (output,) = run(llm, [[C]], temperature=1, **fields)
    entry = output.outputs[0].logprobs[0]
    assert entry[C].logprob - entry[A].logprob == pytest.approx(-1.2 - 3.0, abs=1e-5)
    (raw,) = run(llm, [[C]], max_tokens=1, logprobs=-1, repetition_penalty=1.2)
    entry = raw.outputs[0].logprobs[0]
    assert entry[C].logprob - entry[A].logprob == pytest.approx(-1.0 - 3.0, abs=1e-5)


def test_case_04_penalties_survive_chunks_and_neighbours(table_llm, run):
    params = {"max_tokens": 6, "repetition_penalty": 1.2, "frequency_penalty": 0.5, "logprobs": 3}
    prompts = [[C] * 20 + [A], [A, B], [9]]
    llm = table_llm(column_table(PENALTY_LOGITS))
    alone = [run(llm, [prompt], **params)[0].outputs[0] for prompt in prompts]
    chunked = run(table_llm(column_table(PENALTY_LOGITS), max_prefill_chunk=3), prompts, **params)
    assert [output.outputs[0].logprobs for output in chunked] == [one.logprobs for one in alone]


EMPTY_SETS = [
    {"allowed_token_ids": byte_ids("a"), "bad_words": ["a"]},
    {"allowed_token_ids": [1], "min_tokens": 2},
    {"allowed_token_ids": [1], "first_n_token_no_eos": 1},
    {"allowed_token_ids": byte_ids("a"), "stop_token_ids": byte_ids("a"), "min_tokens": 1},
    {"allowed_token_ids": byte_ids("ab"), "bad_words": ["a", "b"], "logit_bias": {200: 100.0}},
]


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("fields", EMPTY_SETS)
def test_case_05_filters_that_leave_nothing_end_one_request(table_llm, run, temperature, fields):
    llm = table_llm(perm_table())
    empty = SamplingParams(temperature=temperature, max_tokens=8, logprobs=1, **fields)
    plain = SamplingParams(temperature=0, max_tokens=8)
    good, bad, other = run(llm, [[10]] * 3, [plain, empty, plain])
    assert bad.error.code == "no_candidate_token" and bad.outputs[0].finish_reason == "error"
    assert bad.outputs[0].token_ids == [] and bad.outputs[0].text == ""
    assert good.outputs[0].token_ids == other.outputs[0].token_ids == ELEVEN


def test_case_05_what_is_left_later_decides_later(table_llm, run):
    """The ban applies behind "a" only: one token comes, then nothing is left."""
    llm = table_llm(soft_table())
    allowed = byte_ids("a")
    (output,) = run(llm, [[9]], max_tokens=5, allowed_token_ids=allowed, bad_words=["aa"])
    assert output.error.code == "no_candidate_token" and output.outputs[0].token_ids == allowed


def test_case_05_an_allow_list_is_never_left(table_llm, run):
    llm = table_llm(soft_table())
    params = [
        SamplingParams(temperature=t, max_tokens=24, allowed_token_ids=[7, SOFT_IDS[2], 255], seed=t)
        for t in (0, 1, 50)
    ]
    outputs = run(llm, [[9]] * 3, params)
    for output in outputs:
        assert set(output.outputs[0].token_ids) <= {7, SOFT_IDS[2], 255}
    assert len(set(outputs[2].outputs[0].token_ids)) == 3


def test_perm_reference():
    assert perm_tokens(10, 8) == ELEVEN
