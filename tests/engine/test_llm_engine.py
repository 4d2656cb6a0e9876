"""The engine's step and its call loop over a worker with a known next-token table and the real scheduler."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from deepinfer import EngineClosedError, RequestError, SamplingParams
from tests.support.table_engine import EOS, TableEngine, perm_tokens, scripted

pytestmark = pytest.mark.usefixtures("overlaps")

GREEDY = SamplingParams(temperature=0, max_tokens=8)


def test_tokens_reasons_and_metrics() -> None:
    (output,) = TableEngine.build().run([[10]], GREEDY)
    completion = output.outputs[0]
    assert completion.token_ids == [57, 36, 187, 174, 109, 40, 207, 18]
    assert (completion.finish_reason, completion.stop_reason, completion.cumulative_logprob) == ("length", None, None)
    metrics = output.metrics
    assert metrics.batch_invariant is True and metrics.numerics == "fp32" and metrics.num_generated_tokens == 8
    assert metrics.arrival_time <= metrics.first_scheduled_time <= metrics.first_token_time <= metrics.finished_time


def test_results_stand_in_prompt_order_whatever_ends_first() -> None:
    prompts = [[start] for start in range(30)]
    params = [SamplingParams(temperature=0, max_tokens=1 + (7 * place) % 11) for place in range(30)]
    outputs = TableEngine.build(max_num_seqs=3).run(prompts, params)
    assert [output.request_id for output in outputs] == [str(place) for place in range(30)]
    for place, output in enumerate(outputs):
        assert output.outputs[0].token_ids == perm_tokens(place, 1 + (7 * place) % 11)


def test_eos_stop_ids_and_ignore_eos() -> None:
    table = {1: 2, 2: EOS, EOS: 3, 3: 4, 4: 5, 5: 6}
    params = [
        SamplingParams(max_tokens=5),
        SamplingParams(max_tokens=5, ignore_eos=True),
        SamplingParams(max_tokens=5, stop_token_ids=[2]),
        SamplingParams(max_tokens=5, ignore_eos=True, stop_token_ids=[4], skip_special_tokens=False),
    ]
    plain, ignoring, stopped, kept = (o.outputs[0] for o in TableEngine.build(table.__getitem__).run([[1]] * 4, params))
    assert (plain.token_ids, plain.finish_reason, plain.stop_reason) == ([2, EOS], "stop", None)
    assert (ignoring.token_ids, ignoring.finish_reason) == ([2, EOS, 3, 4, 5], "length")
    assert (stopped.token_ids, stopped.finish_reason, stopped.stop_reason) == ([2], "stop", 2)
    assert (kept.token_ids, kept.stop_reason, kept.text) == ([2, EOS, 3, 4], 4, "\x02<eos>\x03\x04")


@pytest.mark.parametrize(
    ("stop", "include", "text", "num_tokens"),
    [("dSTO", False, "abc", 7), ("dSTO", True, "abcdSTO", 7), (["zz", "ST"], False, "abcd", 6), ("c", True, "abc", 3)],
)
def test_stop_strings_end_a_request(stop: object, include: bool, text: str, num_tokens: int) -> None:
    params = SamplingParams(max_tokens=30, stop=stop, include_stop_str_in_output=include)
    engine = TableEngine.build(scripted("abcdSTOPef"))
    (output,) = engine.run([[0]], params)
    completion = output.outputs[0]
    assert (completion.text, completion.finish_reason) == (text, "stop")
    assert completion.stop_reason in ([stop] if isinstance(stop, str) else stop)
    assert len(completion.token_ids) == num_tokens
    assert engine.scheduler.stats().num_generated_tokens == num_tokens
    deltas = TableEngine.build(scripted("abcdSTOPef")).stream([[0]], params)
    assert "".join(delta.text for delta in deltas) == text
    assert [delta.finish_reason for delta in deltas] == [None] * (len(deltas) - 1) + ["stop"]


def test_stop_string_on_the_last_token_counts_as_stop() -> None:
    params = SamplingParams(max_tokens=3, stop="c")
    (output,) = TableEngine.build(scripted("abcd")).run([[0]], params)
    assert (output.outputs[0].finish_reason, output.outputs[0].stop_reason) == ("stop", "c")


def test_stream_joins_to_the_final_text_also_inside_characters() -> None:
    text = "é한x"  # bytes are all distinct
    deltas = TableEngine.build(scripted(text)).stream([[0]], SamplingParams(max_tokens=30, logprobs=0))
    assert "".join(delta.text for delta in deltas) == text
    assert [token for delta in deltas for token in delta.token_ids] == [*text.encode(), EOS]
    assert all(len(delta.logprobs) == len(delta.token_ids) for delta in deltas)


def test_logprobs_and_their_sum() -> None:
    (output,) = TableEngine.build().run([[10]], GREEDY.replace(logprobs=2))
    completion = output.outputs[0]
    assert [entry.chosen().logprob for entry in completion.logprobs] == pytest.approx(
        [-token / 1000 for token in completion.token_ids]
    )
    assert completion.cumulative_logprob == pytest.approx(-sum(completion.token_ids) / 1000)


def test_prompt_logprobs_over_chunks_and_preemption() -> None:
    prompts = [list(range(start, start + 20)) for start in range(4)]
    params = SamplingParams(max_tokens=20, prompt_logprobs=1, ignore_eos=True)
    engine = TableEngine.build(num_blocks=9, max_num_batched_tokens=7, max_prefill_chunk=3, max_num_seqs=4)
    outputs = engine.run(prompts, params)
    assert engine.engine.stats().num_preemptions > 0
    assert sum(output.metrics.num_preemptions for output in outputs) == engine.engine.stats().num_preemptions
    for prompt, output in zip(prompts, outputs, strict=True):
        assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == 20
        for token, entry in zip(prompt[1:], output.prompt_logprobs[1:], strict=True):
            assert entry[token].logprob == pytest.approx(-token / 1000)
        assert output.outputs[0].token_ids == perm_tokens(prompt[-1], 20)


def test_zero_new_tokens_scores_only() -> None:
    (output,) = TableEngine.build().run([[1, 2, 3, 4, 5]], SamplingParams(max_tokens=0, prompt_logprobs=1))
    assert output.outputs[0].token_ids == [] and output.outputs[0].finish_reason == "length"
    assert [entry is None for entry in output.prompt_logprobs] == [True, False, False, False, False]


def test_a_sampling_error_ends_only_its_request() -> None:
    engine = TableEngine.build()
    engine.worker.errors = {1: RequestError("nothing left", code="no_candidate_token")}
    good, bad, other = engine.run([[10], [11], [12]], GREEDY)
    assert (bad.error.code, bad.outputs[0].finish_reason) == ("no_candidate_token", "error")
    assert good.outputs[0].token_ids == perm_tokens(10, 8) and other.outputs[0].token_ids == perm_tokens(12, 8)
    assert engine.engine.stats().num_failed == 1


def test_abort_from_another_thread_is_idempotent_and_gives_what_was_there() -> None:
    engine = TableEngine.build()
    batch = engine.batch([[10], [11]], SamplingParams(max_tokens=50))

    def abort_once(plan: object) -> None:
        if len(engine.worker.plans) == 5:
            for _ in range(2):
                thread = threading.Thread(target=engine.loop.abort, args=(["0", "unknown"],))
                thread.start()
                thread.join()

    engine.worker.on_execute = abort_once
    outputs = dict(batch.finished())
    engine.assert_idle()
    assert outputs[0].outputs[0].finish_reason == "abort"
    tokens = outputs[0].outputs[0].token_ids
    assert 5 <= len(tokens) <= 7 and tokens == perm_tokens(10, len(tokens))
    assert outputs[1].outputs[0].token_ids == perm_tokens(11, 50)
    assert engine.engine.stats().num_aborted == 1


def test_an_open_stream_survives_another_call_and_its_failure() -> None:
    engine = TableEngine.build()
    stream = engine.batch([[10]], GREEDY, streaming=True).deltas()
    tokens = list(next(stream).token_ids)

    def fail(plan: object) -> None:
        raise KeyboardInterrupt

    engine.worker.on_execute = fail
    other = engine.batch([[20]], GREEDY, prefix="other")
    with pytest.raises(KeyboardInterrupt):
        list(other.finished())
    engine.worker.on_execute = lambda plan: None
    tokens += [token for delta in stream for token in delta.token_ids]
    assert tokens == perm_tokens(10, 8)
    engine.assert_idle()


def test_a_broken_prefill_chunk_ends_with_its_own_error() -> None:
    engine = TableEngine.build(max_prefill_chunk=4)
    stream = engine.batch([list(range(12))], GREEDY, streaming=True).deltas()
    engine.worker.on_execute = lambda plan: (_ for _ in ()).throw(OSError("x")) if engine.worker.plans else None
    with pytest.raises(OSError, match="x"):
        next(stream)
    engine.assert_idle()
    engine.worker.on_execute = lambda plan: None
    assert engine.run([[10]], GREEDY)[0].outputs[0].token_ids == perm_tokens(10, 8)


def test_ctrl_c_waits_for_the_end_of_the_step() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # under nohup SIGINT is ignored from the start
    try:
        _interrupt_the_third_step()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_the_third_step() -> None:
    engine = TableEngine.build()
    finished_steps = []

    def interrupt(plan: object) -> None:
        if len(finished_steps) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        finished_steps.append(plan)

    engine.worker.on_execute = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(engine.batch([[10], [11]], GREEDY).finished())
    engine.worker.drain()
    assert len(finished_steps) == len(engine.worker.plans) in (3, 4)  # overlapped: the device may be a step ahead
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    engine.assert_idle()
    engine.worker.on_execute = lambda plan: None
    assert engine.run([[10]], GREEDY)[0].outputs[0].token_ids == perm_tokens(10, 8)


def test_leaving_an_iterator_aborts_the_rest() -> None:
    engine = TableEngine.build(max_num_seqs=1)
    iterator = engine.batch([[10], [11], [12]], GREEDY).finished()
    next(iterator)
    iterator.close()
    engine.assert_idle()
    assert engine.engine.stats().num_aborted == 2


def test_closed_engine_refuses_work() -> None:
    engine = TableEngine.build()
    stream = engine.batch([[10]], GREEDY, streaming=True).deltas()
    next(stream)
    engine.loop.close()
    engine.loop.close()
    assert engine.worker.closed
    with pytest.raises(EngineClosedError):
        next(stream)


def test_thousands_of_sequences_cost_little_per_step() -> None:
    count = 4000
    engine = TableEngine.build(
        num_blocks=count * 2, max_num_seqs=count, max_num_batched_tokens=count, max_prefill_chunk=count
    )
    batch = engine.batch([[place % 256] for place in range(count)], SamplingParams(temperature=0, max_tokens=8))
    outputs = dict(batch.finished())
    stats = engine.engine.stats()
    assert len(outputs) == count and stats.num_steps == 8
    overhead_us = (stats.step_seconds - stats.execute_seconds) / (8 * count) * 1e6
    assert overhead_us < 60  # about 4 when measured alone; CI machines are shared


def test_tokens_of_a_step_may_be_several_and_end_inside() -> None:
    """Drafts will give several tokens per step: what stands behind a stop string is dropped."""
    from deepinfer.core.step_result import SampledToken
    from deepinfer.engine.choice_state import ChoiceState

    engine = TableEngine.build()
    prompt = engine.encoder.encode([0])
    params = SamplingParams(stop="b", logprobs=0)
    state = ChoiceState(engine.inputs.generation("x", 0, prompt, params))
    state.follow_text(engine.encoder._tokenizer)
    samples = [SampledToken(token, -1.0, 1, np.zeros(0, np.int32), np.zeros(0, np.float32)) for token in b"abc"]
    state.add_tokens(list(b"abc"), samples)
    state.finish_text()
    assert state.token_ids == list(b"ab") and len(state.samples) == 2
    assert state.match.num_tokens == 2 and state.text(engine.encoder._tokenizer) == "a"
