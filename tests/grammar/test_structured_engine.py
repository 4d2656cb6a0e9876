"""Structured output through the whole engine: cases 25, 27 and 28, pending grammars, forks, preemption, errors."""

import json
import threading

import jsonschema
import pytest

from deepinfer import LLM, RequestError, SamplingParams
from deepinfer.engine.grammar_queue import GrammarQueue
from deepinfer.grammar.xgrammar_backend import XGrammarBackend
from deepinfer.text.tokenizer import Tokenizer
from tests.grammar.examples import obj
from tests.support.table_model import column_table, with_generation_config
from tests.support.table_tokenizer import byte_ids

SCHEMA = obj(a={"type": "integer", "minimum": 0, "maximum": 99}, s={"type": "string", "maxLength": 4})
TEXT = SamplingParams(max_tokens=4, temperature=0)


def structured(given, **params):
    return SamplingParams(structured_outputs=given, **{"max_tokens": 60, "seed": 1, **params})


@pytest.fixture(scope="module")
def tiny(random_model):
    with LLM(random_model, numerics="fp32", max_model_len=256, block_size=8) as llm:
        yield llm


def run(llm, params, prompt=(5, 6, 7)):
    outputs = llm.generate([list(prompt)] * len(params), list(params), use_tqdm=False)
    return outputs


class Gate:
    """Holds back the compilation of grammars whose source mentions "slow"."""

    def __init__(self, monkeypatch):
        self.opened = threading.Event()
        original = XGrammarBackend.compile

        def compile_late(backend, constraint):
            if "slow" in constraint.source:
                self.opened.wait(60)
            return original(backend, constraint)

        monkeypatch.setattr(XGrammarBackend, "compile", compile_late)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()


def test_case_25_bad_grammars_fail_alone(tiny):
    given = [
        {"json": SCHEMA},
        {"json": {"type": "objekt"}},
        {"json": ""},
        {"json_object": False},
        {"grammar": "root ::= missing"},
        {"json": SCHEMA, "regex": "a"},
        {"json": SCHEMA},
    ]
    outputs = run(tiny, [structured(item) for item in given])
    for output in (outputs[0], outputs[-1]):
        assert output.error is None and output.outputs[0].grammar_complete is True
        jsonschema.validate(json.loads(output.outputs[0].text), SCHEMA)
    for output, reason in zip(
        outputs[1:-1], ("objekt", "json=''", "json_object=False", "missing", "regex"), strict=True
    ):
        assert output.error.code == "grammar_error" and reason in output.error.message
        assert output.outputs[0].finish_reason == "error"
    assert run(tiny, [structured({"choice": ["next call"]})])[0].outputs[0].text == "next call"
    assert not tiny._runtime.engine.has_unfinished_requests()


def test_strict_raises_before_any_work(tiny):
    steps = tiny.stats().num_steps
    params = [TEXT, structured({"grammar": "root ::= missing"})]
    with pytest.raises(RequestError, match='prompt 1: .*"missing" is not defined') as error:
        tiny.generate([[5], [6]], params, use_tqdm=False, strict=True)
    assert error.value.code == "grammar_error" and tiny.stats().num_steps == steps
    good = [TEXT, structured({"choice": ["x"]})]
    assert tiny.generate([[5], [6]], good, use_tqdm=False, strict=True)[1].outputs[0].text == "x"


@pytest.mark.parametrize("params", [{"min_tokens": 20}, {"ignore_eos": True}, {"min_tokens": 20, "ignore_eos": True}])
def test_case_27_whole_value_while_eos_is_banned(tiny, params):
    for seed in range(3):
        (output,) = run(tiny, [structured({"json": {"type": "boolean"}}, seed=seed, **params)])
        completion = output.outputs[0]
        assert completion.text in ("true", "false") and output.error is None
        assert (completion.finish_reason, completion.grammar_complete) == ("stop", True)


def test_case_27_second_eos_and_stop_ids(random_model, tmp_path):
    second = Tokenizer.from_path(random_model).token_to_id("<think>")
    directory = with_generation_config(random_model, tmp_path / "model", eos_token_id=[1, second])
    with LLM(directory, numerics="fp32", max_model_len=256) as llm:
        tokenizer = llm.get_tokenizer()
        comma, letter = tokenizer.token_to_id(","), tokenizer.token_to_id("e")
        bias = {second: 100.0, comma: 50.0, letter: 50.0}
        params = structured({"json": SCHEMA}, logit_bias=bias, stop_token_ids=[comma, letter], max_tokens=120)
        (output,) = run(llm, [params])
        completion = output.outputs[0]
        assert output.error is None and completion.finish_reason == "stop" and completion.token_ids[-1] == second
        assert {comma, letter} <= set(completion.token_ids) and completion.stop_reason is None
        text = tokenizer.decode(completion.token_ids[:-1])
        jsonschema.validate(json.loads(text), SCHEMA)
        brace = tokenizer.token_to_id("}")
        (output,) = run(llm, [structured({"json": SCHEMA}, stop_token_ids=[brace], max_tokens=120, ignore_eos=True)])
        assert output.outputs[0].stop_reason == brace and output.outputs[0].grammar_complete is True
        jsonschema.validate(json.loads(output.outputs[0].text), SCHEMA)


def test_case_28_endless_whitespace(table_models):
    newline = byte_ids("\n")[0]
    directory = table_models.path(column_table({newline: 20.0}, rest=0.0))
    schema = obj(a={"type": "integer"})
    with LLM(directory, numerics="fp32", max_model_len=256) as llm:
        whole, cut, compact = run(
            llm,
            [
                structured({"json": schema}, temperature=0, max_tokens=200),
                structured({"json": schema}, temperature=0, max_tokens=10),
                structured({"json": obj(a={"type": "boolean"}), "whitespace_limit": 0}, temperature=0),
            ],
            prompt=(20,),
        )
    completion = whole.outputs[0]
    assert (completion.finish_reason, completion.grammar_complete) == ("stop", True)
    jsonschema.validate(json.loads(completion.text), schema)
    assert "\n" * 8 in completion.text and "\n" * 9 not in completion.text
    assert (cut.outputs[0].finish_reason, cut.outputs[0].grammar_complete) == ("length", False)
    assert compact.outputs[0].text in ('{"a":true}', '{"a":false}')


def test_case_28_stop_string_inside_a_value(tiny):
    given = {"choice": ['{"text": "before STOP after"}']}
    (output,) = run(tiny, [structured(given, stop=["STOP"])])
    completion = output.outputs[0]
    assert (completion.text, completion.stop_reason) == ('{"text": "before ', "STOP")
    assert (completion.finish_reason, completion.grammar_complete) == ("stop", False)
    assert completion.to_dict()["grammar_complete"] is False


def test_free_text_has_no_flag(tiny):
    assert run(tiny, [TEXT])[0].outputs[0].grammar_complete is None


def test_a_pending_grammar_holds_nobody_up(random_model, gate):
    with LLM(random_model, numerics="fp32", max_model_len=128) as llm:
        ended = llm.generate_iter(
            [[5], [6], [7]], [structured({"choice": ["slow"]}), TEXT, structured({"choice": ["x"]})]
        )
        first, second = next(ended), next(ended)
        assert {first.request_id, second.request_id} == {"1", "2"}
        assert llm._runtime.engine.has_unfinished_requests() and llm.stats().num_waiting == 1
        gate.opened.set()
        assert next(ended).outputs[0].text == "slow" and list(ended) == []


def test_timeout_ends_its_request_and_waiting_does_not_spin(random_model, gate, monkeypatch):
    waits = []
    original = GrammarQueue.wait
    monkeypatch.setattr(GrammarQueue, "wait", lambda queue, seconds: (waits.append(1), original(queue, seconds)))
    with LLM(random_model, numerics="fp32", max_model_len=128, grammar_timeout=0.5, grammar_threads=1) as llm:
        slow, text = run(llm, [structured({"choice": ["slow"]}), TEXT])
        assert slow.error.code == "grammar_timeout" and "0.5 s" in slow.error.message and text.error is None
        assert len(waits) <= 12
        monkeypatch.setattr(llm._runtime.engine._grammars._compiler, "_config", llm.config.grammar.__class__())
        assert run(llm, [structured({"choice": ["x"]})])[0].outputs[0].text == "x"  # in the thread that replaced it


def test_abort_while_pending_and_close(random_model, gate):
    llm = LLM(random_model, numerics="fp32", max_model_len=128)
    ended = llm.generate_iter([[5], [6]], [structured({"choice": ["slow"]}), TEXT], request_ids=["late", "now"])
    assert next(ended).request_id == "now"
    llm.abort("late")
    output = next(ended)
    assert (output.request_id, output.outputs[0].finish_reason) == ("late", "abort")
    assert not llm._runtime.engine.has_unfinished_requests() and llm._runtime.engine._grammars.num_pending == 0
    stream = llm.stream([[5], [6]], [structured({"choice": ["slow2"]}), TEXT])
    next(stream)
    llm.close()
    llm.close()
    gate.opened.set()


def test_choices_have_their_own_matchers(tiny):
    (several,) = run(tiny, [structured({"json": SCHEMA}, n=3, temperature=1.2)])
    (alone,) = run(tiny, [structured({"json": SCHEMA}, temperature=1.2)])
    assert several.outputs[0].token_ids == alone.outputs[0].token_ids
    assert len({completion.text for completion in several.outputs}) == 3
    for completion in several.outputs:
        jsonschema.validate(json.loads(completion.text), SCHEMA)


def test_preempted_requests_go_on_where_they_were(random_model, tiny):
    params = [structured({"json": SCHEMA}, seed=seed, temperature=1.5, logprobs=2) for seed in range(2)]
    alone = [run(tiny, [item])[0].outputs[0] for item in params]
    with LLM(random_model, numerics="fp32", max_model_len=64, block_size=8, kv_cache_bytes=25_000) as llm:
        together = run(llm, params)
        assert llm.stats().num_preemptions > 0
    for first, output in zip(alone, together, strict=True):
        assert output.outputs[0].token_ids == first.token_ids and output.outputs[0].grammar_complete is True
        assert output.outputs[0].cumulative_logprob == first.cumulative_logprob


def test_golden_tokens_against_the_grammar(tiny):
    ids = tiny.get_tokenizer().encode("[1]")
    fits, contradicts, text = run(
        tiny,
        [
            structured({"json": {"type": "array"}}, golden_token_ids=[*ids, 1]),
            structured({"json": {"type": "array"}}, golden_token_ids=[ids[0], 2]),
            TEXT,
        ],
    )
    assert fits.outputs[0].text == "[1]" and fits.outputs[0].grammar_complete is True
    assert contradicts.error.code == "grammar_violation" and text.error is None


def test_logits_processors(tiny):
    def always(generated_ids, row):
        row[9] = 1000.0
        return row

    def fails(prompt_ids, generated_ids, row):
        raise KeyError(len(prompt_ids) + len(generated_ids))

    good, bad, text = run(
        tiny, [TEXT.replace(logits_processors=[always]), TEXT.replace(logits_processors=[fails]), TEXT]
    )
    assert good.outputs[0].token_ids == [9, 9, 9, 9] and text.error is None
    assert bad.error.code == "logits_processor_error" and "KeyError: 3" in bad.error.message


def test_trigger_in_the_engine(tiny):
    """Free text until the trigger; forced ids make the free part known."""
    ids = tiny.get_tokenizer().encode("ab")
    given = {"schema_type": "regex", "schema": "xyz", "trigger_token_ids": [9, 9, 8]}
    (output,) = run(tiny, [SamplingParams(so_args=given, golden_token_ids=[*ids, 9, 9, 9, 8], seed=1, max_tokens=30)])
    completion = output.outputs[0]
    assert completion.text.endswith("xyz") and completion.grammar_complete is True
    free = {"schema_type": "regex", "schema": "xyz", "trigger_token_ids": [9, 9, 8]}
    (output,) = run(tiny, [SamplingParams(so_args=free, golden_token_ids=[9, 9, 9], max_tokens=3)])
    assert (output.outputs[0].finish_reason, output.outputs[0].grammar_complete) == ("length", False)


def test_streams_end_with_the_error(tiny):
    deltas = list(tiny.stream([[5], [6]], [structured({"grammar": "root ::= x"}), TEXT]))
    errors = [delta for delta in deltas if delta.error is not None]
    assert len(errors) == 1 and errors[0].prompt_index == 0 and errors[0].finish_reason == "error"
