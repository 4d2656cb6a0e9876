"""Cases 12 and 13: characters of several bytes, added tokens, ids that the tokenizer does not have."""

import pytest

from deepinfer import RequestError, SamplingParams
from tests.support.table_model import column_table, soft_table
from tests.support.table_tokenizer import MERGED, byte_ids


def forced(ids, **fields):
    return SamplingParams(temperature=0, max_tokens=len(ids), golden_token_ids=ids, ignore_eos=True, **fields)


TEXTS = {
    "emoji": (byte_ids("é🌶️한") + byte_ids(b"\xf0"), "é🌶️한\ufffd"),
    "family": (byte_ids("👨‍👩‍👧🇳🇴"), "👨‍👩‍👧🇳🇴"),
    "cut in three": (byte_ids(b"ab\xf0\x9f\x8c"), "ab\ufffd"),
    "byte inside": (byte_ids(b"a\xf0b\xe4\xbd\xa0"), "a\ufffdb你"),
    "surrogate and overlong": (byte_ids(b"\xed\xa0\x80\xc0\xafz"), None),
    "special inside a character": ([*byte_ids(b"\xed\x95"), 9, *byte_ids(b"\x9c")], None),
}


@pytest.mark.parametrize("skip", [True, False])
def test_case_12_texts_equal_the_decoded_ids(table_llm, run, skip):
    llm = table_llm(soft_table())
    tokenizer = llm.get_tokenizer()
    params = [forced(ids, skip_special_tokens=skip, logprobs=0) for ids, _ in TEXTS.values()]
    outputs = run(llm, [[10]] * len(params), params)
    deltas = list(llm.stream([[10]] * len(params), params))
    for place, (output, (ids, text)) in enumerate(zip(outputs, TEXTS.values(), strict=True)):
        assert output.outputs[0].token_ids == ids
        assert output.outputs[0].text == tokenizer.decode(ids, skip_special_tokens=skip)
        assert text is None or output.outputs[0].text == text
        pieces = [delta.text for delta in deltas if delta.prompt_index == place]
        assert "".join(pieces) == output.outputs[0].text
        if text is not None and "\ufffd" not in text:
            assert "\ufffd" not in "".join(pieces)


def test_case_12_a_stop_string_or_the_limit_cuts_no_character(table_llm, run):
    llm = table_llm(soft_table())
    ids = byte_ids("한국어")
    (stopped,) = run(llm, [[10]], forced(ids, stop="국"))
    assert stopped.outputs[0].text == "한" and stopped.outputs[0].token_ids == ids[:6]
    (cut,) = run(llm, [[10]], forced(ids).replace(max_tokens=4))
    assert cut.outputs[0].text == "한\ufffd"


HIGH = column_table({token: 20.0 + token / 16 for token in range(272, 288)} | {100: 5.0, 101: 4.0}, rest=-40.0)


@pytest.mark.parametrize("fields", [{"temperature": 0}, {"temperature": 1}, {"temperature": 50}, {"top_k": 3}])
def test_case_13_ids_behind_the_tokenizer_never_come(table_llm, run, fields):
    llm = table_llm(HIGH.bfloat16().float(), merged=())
    assert llm.get_tokenizer().size == 272
    for mode in ("raw", "processed"):
        params = SamplingParams(max_tokens=12, logprobs=5, prompt_logprobs=5, logprobs_mode=mode, **fields)
        for output in run(llm, [[10, 11]] * 4, params):
            assert output.error is None and max(output.outputs[0].token_ids) < 272
            assert all(token < 272 for entry in output.outputs[0].logprobs for token in entry)
            assert all(token < 272 for token in output.prompt_logprobs[1])
    (whole,) = run(llm, [[10]], max_tokens=1, logprobs=-1, logit_bias={271: 100.0})
    assert len(whole.outputs[0].logprobs[0]) == 272 and whole.outputs[0].token_ids == [271]


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_token_ids": [272, 20]},
        {"logit_bias": {287: 1.0}},
        {"golden_token_ids": [280]},
        {"stop_token_ids": [272]},
    ],
)
def test_case_13_parameters_that_name_such_ids_are_refused(table_llm, run, fields):
    good, bad = run(
        table_llm(HIGH.bfloat16().float(), merged=()),
        [[10], [10]],
        [SamplingParams(temperature=0), SamplingParams(temperature=0, **fields)],
    )
    assert good.error is None and bad.error.code == "token_id_out_of_range"


def test_case_13_such_ids_are_no_input(table_llm, run):
    llm = table_llm(HIGH.bfloat16().float(), merged=())
    good, bad = run(llm, [[271], [272]])
    assert good.error is None and bad.error.code == "token_id_out_of_range"
    with pytest.raises(RequestError):
        llm.score([[5]], [[280]])


@pytest.mark.parametrize("skip", [True, False])
def test_case_13_added_tokens_get_no_spaces(table_llm, run, skip):
    llm = table_llm(soft_table(), merged=MERGED[:14], added=("<t>", "</t>"))
    tokenizer = llm.get_tokenizer()
    ids = tokenizer.encode("<t>1</t>")
    assert ids == [286, *byte_ids("1"), 287]
    for text in ("<t>1</t>", "a<t> 1 </t>b", "<t></t>", "한<t>é"):
        ids = tokenizer.encode(text)
        params = forced(ids, skip_special_tokens=skip)
        (output,) = run(llm, [[10]], params)
        assert output.outputs[0].text == text == tokenizer.decode(ids)
        assert "".join(delta.text for delta in llm.stream([[10]], params)) == text
