"""A KeyboardInterrupt at any line of a step: nobody waits for ever, nobody's text has a gap, nothing stays behind."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import deepinfer.engine
from deepinfer import RequestError, SamplingParams
from deepinfer.engine.deferred_interrupt import DeferredInterrupt
from tests.support.table_engine import TableEngine, perm_tokens

pytestmark = pytest.mark.usefixtures("overlaps")

FOLDER = Path(deepinfer.engine.__file__).parent
NAMES = ("llm_engine", "overlapped_engine", "step_recovery", "sync_loop")
OUTPUTS = ("output_processor", "output_builder", "choice_state", "request_state")
FILES = {str(FOLDER / f"{name}.py") for name in (*NAMES, *OUTPUTS)}
Line = tuple[str, int]
GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)


class LineTracer:
    """Counts the lines that run inside `sys.settrace`, and raises at one of them."""

    def __init__(self, target: tuple[Line, int] | None = None) -> None:
        self.counts: Counter[Line] = Counter()
        self.has_raised = False
        self._target = target

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            self.counts[line] += 1
            if self._target == (line, self.counts[line]):
                self.has_raised = True
                raise KeyboardInterrupt
        return self


def run_interrupted(tracer: LineTracer) -> TableEngine:
    """A call of several kinds of requests beside another call's stream, with `tracer` in every step of the first."""
    engine = TableEngine.build(max_prefill_chunk=4, max_num_seqs=6)
    other = engine.batch([[20]], GREEDY.replace(max_tokens=8), streaming=True, prefix="other").deltas()
    tokens = list(next(other).token_ids)
    kinds = [GREEDY.replace(n=2), GREEDY.replace(stop="z", logprobs=1), GREEDY.replace(prompt_logprobs=1), GREEDY]
    batch = engine.batch([[10], [11], list(range(30, 39)), [12]], [*kinds], prefix="mine")
    engine.worker.errors = {5: RequestError("of its own")}
    engine.worker.on_execute = lambda plan: engine.loop.abort(["mine0"]) if len(engine.worker.plans) == 4 else None
    advance = engine.loop.advance

    def traced(mailbox: Any) -> None:
        if not tracer.has_raised:
            sys.settrace(tracer)
        try:
            advance(mailbox)
        finally:
            sys.settrace(None)

    engine.loop.advance = traced  # type: ignore[method-assign]
    try:
        list(batch.finished())
    except KeyboardInterrupt:
        assert tracer.has_raised
    del engine.loop.advance  # type: ignore[attr-defined]
    end = None
    for end in other:
        tokens += end.token_ids
    assert end is not None and end.finish_reason is not None
    assert tokens == perm_tokens(20, 8)[: len(tokens)]
    assert end.error is not None or len(tokens) == 8
    return engine


def run_again(engine: TableEngine) -> None:
    engine.assert_idle()
    engine.worker.errors = {}
    engine.worker.on_execute = lambda plan: None
    (output,) = engine.run([[10]], GREEDY)
    assert output.outputs[0].token_ids == perm_tokens(10, 6)
    assert not engine.loop._mailboxes


@pytest.mark.parametrize("occurrences", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_at_every_line_of_every_step(occurrences: int) -> None:
    whole = LineTracer()
    run_again(run_interrupted(whole))
    assert len(whole.counts) > 150 and not whole.has_raised
    for line, count in whole.counts.items():
        for occurrence in sorted({1, (count + 1) // 2, count} if occurrences == 3 else {(count + 1) // 2}):
            tracer = LineTracer((line, occurrence))
            try:
                run_again(run_interrupted(tracer))
            except BaseException as error:
                error.add_note(f"interrupted at {Path(line[0]).name}:{line[1]}, occurrence {occurrence}")
                raise
            assert tracer.has_raised


def test_a_plan_that_nobody_got_is_planned_again() -> None:
    engine = TableEngine.build()
    stream = engine.batch([[10]], GREEDY, streaming=True).deltas()
    tokens = list(next(stream).token_ids)
    engine.scheduler.schedule()  # as if an exception came before the engine had noted it
    tokens += [token for delta in stream for token in delta.token_ids]
    assert tokens == perm_tokens(10, 6)
    engine.assert_idle()


def test_a_second_ctrl_c_breaks_the_computation_only() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        reached = []
        with pytest.raises(KeyboardInterrupt), DeferredInterrupt(lambda: False):
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
            reached.append("the end")
        with pytest.raises(KeyboardInterrupt), DeferredInterrupt(lambda: True):
            signal.raise_signal(signal.SIGINT)
            reached.append("the second")
            signal.raise_signal(signal.SIGINT)
            reached.append("never")
        with pytest.raises(KeyboardInterrupt) as caught, DeferredInterrupt():
            signal.raise_signal(signal.SIGINT)
            raise OSError("of the step")
        assert reached == ["the end", "the second"] and isinstance(caught.value.__cause__, OSError)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
