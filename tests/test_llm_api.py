"""The public class LLM on the bundled model and on a tiny random one."""

import json
import math
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from deepinfer import (
    LLM,
    CheckpointError,
    ConfigError,
    EngineClosedError,
    RequestError,
    SamplingParams,
    UnsupportedFeatureError,
)
from deepinfer._C import SequenceRows, StepEstimator
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.worker.cost_totals import CostTotals
from deepinfer.worker.kv_cache import cache_table
from deepinfer.worker.model_shape import model_shape
from tests.support.golden_case import GOLDEN

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
CHAT = "<｜begin▁of▁sentence｜><｜User｜>What is the capital of Norway?<｜Assistant｜></think>"


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    fixed = {"varlen": False}
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=4, block_size=8, speculative=fixed) as llm:
        yield llm


@pytest.fixture(scope="module")
def mini() -> Iterator[LLM]:
    with LLM() as llm:
        yield llm


def test_bundled_model_answers_with_its_own_defaults(mini: LLM) -> None:
    assert mini.default_params == SamplingParams(temperature=0.3, top_p=0.9, max_tokens=128)
    (output,) = mini.generate(CHAT, mini.default_params.replace(temperature=0), use_tqdm=False)
    assert output.outputs[0].text == "The capital of Norway is Oslo."
    assert output.outputs[0].finish_reason == "stop" and output.outputs[0].stop_reason is None
    assert output.prompt_token_ids.count(0) == 1
    assert output.metrics.batch_invariant is True and output.metrics.numerics == "official"
    json.dumps(output.to_dict(), allow_nan=False)


def test_stats_sum_up_what_steps_cost() -> None:
    """A prompt in one step and two decode steps, by the estimator."""
    with LLM(max_num_seqs=1, speculative="off") as llm:
        llm.generate([[5] * 9], GREEDY.replace(max_tokens=3), use_tqdm=False)
        got = llm.stats().cost
    config = DeepSeekV41Config.from_path(str(files("deepinfer") / "data/mini"))
    shape = model_shape(config, Numerics.OFFICIAL, cache_table(config, Numerics.OFFICIAL, "auto", 128))
    rows = [
        SequenceRows(context_len=start, num_rows=count, num_logit_rows=1) for start, count in ((0, 9), (9, 1), (10, 1))
    ]
    costs = [CostTotals.of(StepEstimator(shape).target_pass([row])) for row in rows]
    assert got.flops == sum(cost.flops for cost in costs) > 0
    assert got.bytes == sum(cost.bytes for cost in costs)
    assert got.fp8_equivalent_flops == sum(cost.fp8_equivalent_flops for cost in costs)


def test_score_ranks_the_right_answer(mini: LLM) -> None:
    right, wrong, empty = mini.score([CHAT] * 3, ["The capital of Norway is Oslo.", "The moon.", ""])
    assert right[1] is True and wrong[1] is False and right[0] > wrong[0]
    assert math.isclose(right[0], sum(right[2]), rel_tol=1e-5) and len(right[2]) > 4
    assert empty == (0.0, True, [])


def test_score_equals_generation_logprobs(llm: LLM) -> None:
    (output,) = llm.generate([[5, 9, 20]], GREEDY.replace(logprobs=0), use_tqdm=False)
    completion = output.outputs[0]
    ((total, is_greedy, token_logprobs),) = llm.score([[5, 9, 20]], [completion.token_ids])
    assert is_greedy and total == pytest.approx(completion.cumulative_logprob, abs=1e-5)
    assert token_logprobs == pytest.approx([entry.chosen().logprob for entry in completion.logprobs], abs=1e-5)


def test_score_mistakes(llm: LLM) -> None:
    assert llm.score([], []) == []
    for contexts, targets, code in (
        (["a"], ["b", "c"], "length_mismatch"),
        ([[]], [[5]], "empty_context"),
        ([[5]], [[5] * 5000], "prompt_too_long"),
    ):
        with pytest.raises(RequestError) as caught:
            llm.score(contexts, targets)
        assert caught.value.code == code
    assert llm.stats().num_running == 0


def test_stream_equals_generate(llm: LLM) -> None:
    prompts, params = [[5, 6], [7], "text", [999]], GREEDY.replace(logprobs=1)
    outputs = llm.generate(prompts, params, use_tqdm=False)
    deltas = list(llm.stream(prompts, params))
    for place, output in enumerate(outputs):
        mine = [delta for delta in deltas if delta.prompt_index == place]
        completion = output.outputs[0]
        assert [token for delta in mine for token in delta.token_ids] == completion.token_ids
        assert "".join(delta.text for delta in mine) == completion.text
        assert [delta.finish_reason for delta in mine[:-1]] == [None] * (len(mine) - 1)
        assert mine[-1].finish_reason == completion.finish_reason
    assert deltas[0].error.code == outputs[3].error.code == "token_id_out_of_range"


def test_generate_iter_yields_as_requests_end(llm: LLM) -> None:
    params = [GREEDY.replace(max_tokens=count) for count in (9, 2, 5)]
    iterator = llm.generate_iter([[5], [6], [7]], params, request_ids=["long", "short", "middle"])
    assert [output.request_id for output in iterator] == ["short", "middle", "long"]
    iterator = llm.generate_iter([[5], [6]], GREEDY)
    next(iterator)
    del iterator
    assert llm.stats().num_running == llm.stats().num_waiting == 0


def test_calls_may_interleave_and_run_in_threads(llm: LLM) -> None:
    (expected,) = llm.generate([[5]], GREEDY, use_tqdm=False)
    stream = llm.stream([[5]], GREEDY)
    tokens = list(next(stream).token_ids)
    (inner,) = llm.generate([[5]], GREEDY, use_tqdm=False)
    results: list[list[int]] = []

    def work() -> None:
        (output,) = llm.generate([[5]], GREEDY, use_tqdm=False)
        results.append(output.outputs[0].token_ids)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    tokens += [token for delta in stream for token in delta.token_ids]
    assert [tokens, inner.outputs[0].token_ids, *results] == [expected.outputs[0].token_ids] * 5


def test_abort_ends_one_request(llm: LLM) -> None:
    stream = llm.stream([[5], [6]], GREEDY.replace(max_tokens=40), request_ids=["mine", "other"])
    next(stream)
    for request_id in ("mine", "mine", "nobody"):
        llm.abort(request_id)
    ends = {delta.request_id: delta.finish_reason for delta in stream if delta.finish_reason}
    assert ends == {"mine": "abort", "other": "length"}


def test_keyboard_interrupt_leaves_the_engine_usable(llm: LLM) -> None:
    def interrupting_bar(**options: object) -> object:
        class Bar:
            def update(self, n: int = 1) -> None:
                raise KeyboardInterrupt

            def close(self) -> None:
                pass

        return Bar()

    params = [GREEDY.replace(max_tokens=count) for count in (2, 60, 60, 60, 60, 60)]
    with pytest.raises(KeyboardInterrupt):
        llm.generate([[5]] * 6, params, use_tqdm=interrupting_bar)
    stats = llm.stats()
    assert stats.num_running == stats.num_waiting == 0 and stats.num_free_blocks == stats.num_blocks
    assert llm.generate([[5]], GREEDY, use_tqdm=False)[0].error is None


def test_request_ids(llm: LLM) -> None:
    outputs = llm.generate([[5], [6]], GREEDY, request_ids=["a", "b"], use_tqdm=False)
    assert [output.request_id for output in outputs] == ["a", "b"]
    first, second = llm.generate([[5], [6]], GREEDY, use_tqdm=False)
    assert int(second.request_id) == int(first.request_id) + 1
    with pytest.raises(RequestError, match="'a'"):
        llm.generate([[5], [6]], GREEDY, request_ids=["a", "a"], use_tqdm=False)


def test_unseeded_requests_differ_and_engines_repeat() -> None:
    params = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)
    runs = []
    for seed in (3, 3, 4):
        with LLM(GOLDEN / "nano-s1", seed=seed, numerics="fp32") as llm:
            outputs = llm.generate([[5]] * 3, params, use_tqdm=False)
        runs.append([output.outputs[0].token_ids for output in outputs])
    assert runs[0] == runs[1] != runs[2]
    assert len({tuple(tokens) for tokens in runs[0]}) == 3


def test_capture_and_replace(llm: LLM) -> None:
    prompt = [5, 9, 20, 31]
    with llm.capture("logits", "layers.*.ffn*") as tap:
        (output,) = llm.generate([prompt], GREEDY, use_tqdm=False)
    request_id = output.request_id
    assert "logits" in tap.names() and any(name.startswith("layers.0.ffn") for name in tap.names())
    positions = tap.positions("logits", request_id)
    assert positions.tolist() == list(range(3, 3 + 6))
    assert tap.tensor("logits", request_id).argmax(-1).tolist() == output.outputs[0].token_ids
    num_rows = len(tap.positions("logits", request_id))
    llm.generate([prompt], GREEDY, use_tqdm=False)
    assert len(tap.positions("logits", request_id)) == num_rows
    with pytest.raises(TypeError, match="at least one"), llm.capture():
        pass


def test_constructor_names_and_features() -> None:
    with pytest.raises(TypeError, match="did you mean 'max_num_seqs'"):
        LLM(max_num_seq=4)
    refused = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    for name, value in refused.items():
        with pytest.raises(UnsupportedFeatureError, match=name):
            LLM(**{name: value})
    with pytest.raises(ConfigError, match=r"speculative.acceptance = 'rejection'.*batch_invariant"):
        LLM(speculative={"acceptance": "rejection"})
    with pytest.raises(ConfigError, match="numerics"):
        LLM(numerics="fp16")


def test_text_prompts_get_bos_without_a_tokenizer_config(tmp_path: Path) -> None:
    for file in (GOLDEN / "nano-s1").iterdir():
        if file.name != "tokenizer_config.json":
            (tmp_path / file.name).symlink_to(file)
    with LLM(tmp_path, numerics="fp32", max_num_seqs=2) as llm:
        (output,) = llm.generate("ab", GREEDY, use_tqdm=False)
        assert output.prompt_token_ids[0] == 0 and len(output.prompt_token_ids) > 1
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<｜end▁of▁sentence｜>"}))
    with pytest.raises(CheckpointError, match="config.json says bos_token_id = 0"):
        LLM(tmp_path, numerics="fp32")


def test_the_engram_pad_variable_must_agree_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("2", "3"):
        monkeypatch.setenv("DEEPINFER_ENGRAM_PAD_TOKEN", text)
        if text == "2":
            LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=2).close()
        else:
            with pytest.raises(ConfigError, match="engram_pad_token_id is 2"):
                LLM(GOLDEN / "nano-s1", numerics="fp32")


def test_environment_is_a_default_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPINFER_ENFORCE_EAGER", "1")
    with LLM(GOLDEN / "nano-s1", numerics="fp32") as llm:
        assert llm.config.enforce_eager is True
    with LLM(GOLDEN / "nano-s1", numerics="fp32", enforce_eager=False) as llm:
        assert llm.config.enforce_eager is False
    monkeypatch.setenv("DEEPINFER_ENFORCE_EAGER", "enabled")
    with pytest.raises(ConfigError, match="DEEPINFER_ENFORCE_EAGER"):
        LLM(GOLDEN / "nano-s1")


def test_later_features_are_named(llm: LLM) -> None:
    (output,) = llm.generate({"prompt": "hi", "images": [b"x"]}, GREEDY, use_tqdm=False)
    assert output.error is not None and "image input is not built yet" in output.error.message


def test_use_after_close_is_refused() -> None:
    llm = LLM(GOLDEN / "nano-s1", numerics="fp32")
    stream = llm.stream([[5]], GREEDY)
    next(stream)
    llm.close()
    llm.close()
    for use in (
        lambda: llm.generate([[5]]),
        lambda: llm.stream([[5]]),
        lambda: llm.score([[5]], [[6]]),
        lambda: llm.chat([{"role": "user", "content": "hi"}]),
        lambda: llm.stream_chat([{"role": "user", "content": "hi"}]),
        lambda: llm.abort("0"),
        lambda: llm.stats(),
        lambda: next(stream),
        lambda: llm.__enter__(),
    ):
        with pytest.raises(EngineClosedError, match="closed"):
            use()


def test_progress_goes_to_standard_error_only(llm: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        llm.generate([[5], [6], [999], [7]], GREEDY)
        captured = capsys.readouterr()
        assert captured.out == "" and "100%" in captured.err.splitlines()[-1] and "4/4" in captured.err
    llm.generate([[5], [999]], GREEDY, use_tqdm=False)
    assert capsys.readouterr() == ("", "")
