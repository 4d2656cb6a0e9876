"""Mistakes and faults that must stay with the request they belong to."""

import logging

import numpy as np
import pytest

from deepinfer import DeepInferError, RequestError, SamplingParams
from deepinfer.engine.mailbox import Mailbox
from tests.support.table_engine import TableEngine, perm_tokens

pytestmark = pytest.mark.usefixtures("overlaps")

GREEDY = SamplingParams(temperature=0, max_tokens=8)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_refused_duplicate_leaves_the_first_request_alone(streaming: bool) -> None:
    engine = TableEngine.build()
    first = engine.batch([[10]], GREEDY, streaming=True).deltas()
    second = engine.batch([[11]], GREEDY, streaming=streaming)
    tokens = list(next(first).token_ids)
    if streaming:
        (refused,) = second.deltas()
    else:
        ((_, refused),) = second.finished()
    assert refused.error.code == "duplicate_request_id"
    tokens += [token for delta in first for token in delta.token_ids]
    assert tokens == perm_tokens(10, 8)
    engine.assert_idle()


def test_waiting_for_nothing_is_an_error() -> None:
    engine = TableEngine.build()
    with pytest.raises(DeepInferError, match="waits for requests"):
        engine.loop.advance(Mailbox(streaming=True))
    stream = engine.batch([[10]], GREEDY, streaming=True).deltas()
    next(stream)
    with pytest.raises(DeepInferError, match="waits for requests"):  # also while others are busy
        engine.loop.advance(Mailbox(streaming=True))
    stream.close()
    engine.assert_idle()


def test_an_output_cut_by_the_whole_cache_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    engine = TableEngine.build(num_blocks=4, block_size=8, max_model_len=64)
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    with caplog.at_level(logging.WARNING, logger="deepinfer"):
        for _ in range(2):
            (cut,) = engine.run([[1] * 30], params)
            assert (cut.outputs[0].finish_reason, cut.outputs[0].stop_reason) == ("length", "cache_capacity")
            assert len(cut.outputs[0].token_ids) == 3
    assert caplog.text.count("kv_cache_bytes") == 1
    last = engine.stream([[1] * 30], params)[-1]
    assert (last.finish_reason, last.stop_reason) == ("length", "cache_capacity")
    (whole,) = engine.run([[1] * 30], params.replace(max_tokens=3))
    assert (whole.outputs[0].finish_reason, whole.outputs[0].stop_reason) == ("length", None)
    longest = TableEngine.build(num_blocks=8, block_size=8, max_model_len=16)
    (full,) = longest.run([[1] * 10], SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    assert (len(full.outputs[0].token_ids), full.outputs[0].stop_reason) == (6, None)


def test_only_the_capacity_is_called_capacity() -> None:
    engine = TableEngine.build(num_blocks=4, block_size=8, max_model_len=64)

    def refused(length: int) -> RequestError:
        request = engine.inputs.generation("x", 0, engine.encoder.encode([1]), GREEDY)
        object.__setattr__(request, "prompt_token_ids", np.ones(length, np.int32))  # past the input processor's checks
        with pytest.raises(RequestError) as caught:
            engine.engine.add_request(request)
        engine.assert_idle()
        return caught.value

    assert refused(40).code == "capacity_exceeded"
    assert refused(0).code == "invalid_request"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_text_that_cannot_be_made_costs_only_its_request(
    streaming: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = TableEngine.build()
    params = [GREEDY.replace(stop="zz", n=2), GREEDY]
    batch = engine.batch([[10], [11]], params, streaming=streaming)
    processor = engine.engine._outputs
    plain = processor._take_tokens

    def broken(state: object, choice: object, *rest: object) -> int:
        if state.request.prompt_token_ids[0] == 10 and len(choice.token_ids) == 2:
            raise UnicodeError("no such text")
        return plain(state, choice, *rest)

    monkeypatch.setattr(processor, "_take_tokens", broken)
    if streaming:
        deltas = list(batch.deltas())
        assert [delta.error.message for delta in deltas if delta.error] == ["no such text"]
        tokens = [token for delta in deltas if delta.prompt_index == 1 for token in delta.token_ids]
    else:
        outputs = dict(batch.finished())
        assert (outputs[0].error.message, outputs[0].outputs[0].finish_reason) == ("no such text", "error")
        tokens = outputs[1].outputs[0].token_ids
    assert tokens == perm_tokens(11, 8)
    engine.assert_idle()
    assert "cannot be made" in caplog.text
    assert engine.engine.stats().num_failed == 1


@pytest.mark.parametrize("ending", ["length", "abort", "error"])
@pytest.mark.parametrize("part", ["output", "delta"])
def test_an_output_that_cannot_be_built(ending: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TableEngine.build()
    batch = engine.batch([[10], [11]], [GREEDY.replace(n=2), GREEDY], streaming=True)
    builder = engine.engine._outputs._builder
    plain = getattr(builder, part)

    def broken(state: object, *rest: object) -> object:
        if state.request.prompt_token_ids[0] == 10 and state.choices[0].finish_reason is not None:
            raise MemoryError("too much")
        return plain(state, *rest)

    def end(plan: object) -> None:
        if len(engine.worker.plans) == 3 and ending == "abort":
            engine.loop.abort(["0"])
        if len(engine.worker.plans) == 3 and ending == "error":
            engine.worker.errors = {0: RequestError("x"), 1: RequestError("y")}

    monkeypatch.setattr(builder, part, broken)
    engine.worker.on_execute = end
    deltas = list(batch.deltas())
    assert "too much" in [delta.error.message for delta in deltas if delta.error]
    assert [token for d in deltas if d.prompt_index == 1 for token in d.token_ids] == perm_tokens(11, 8)
    engine.assert_idle()


def test_an_emit_phase_that_is_broken_off_leaves_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TableEngine.build()
    stream = engine.batch([[10], [11]], GREEDY, streaming=True).deltas()
    next(stream)
    next(stream)
    monkeypatch.setattr(engine.engine._outputs, "_take_tokens", lambda *rest: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        next(stream)
    engine.assert_idle()
    monkeypatch.undo()
    assert engine.run([[10]], GREEDY)[0].outputs[0].token_ids == perm_tokens(10, 8)
