"""The engine whose host works on one step while its device computes the next (zero-overhead scheduling)."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from deepinfer._C import StepPlan
from deepinfer.core.step_result import StepResult
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.step_in_flight import StepInFlight
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.logging import get_logger
from deepinfer.profile.host_trace import phase

logger = get_logger(__name__)


class OverlappedEngine(LLMEngine):
    """Gives the outputs of `LLMEngine`, token for token. A decode step N goes like this:

        schedule(N)           while sample(N-1) runs: what N-1 gives is not known yet, so the plan is linked to it
        forward(N) launched   the device makes the plan exact by itself, since it knows what N-1 gave
        update(N-1), emit(N-1)    while forward(N) runs
        sample(N) launched    with the plan as it turned out: penalties, grammars and stops see every token before it

    A sequence that ended with N-1 is still in N: a ghost, which is computed and gets nothing. At most two steps are in
    flight, and one between two calls of `step`. Prefill steps are waited for at once, and so is every step while a
    research hook is attached. What an ended sequence held may be used again at once: the device does one thing after
    the other.
    """

    _stepping = False  # also behind a step that an exception broke off

    @phase("step")
    def step(self) -> StepOutputs:
        """Advance every scheduled sequence; hand out what the step before gave. See `LLMEngine.step`."""
        self._recover()
        self._stepping = True
        self._apply_aborts()
        self._drop_ghosts()
        self._admit_structured()
        if self._steps and self._worker.probe.is_attached:
            self._book()
        self._go_on()
        outputs = self._take_ready()
        self._stepping = False
        return outputs

    def _run(self, step: StepInFlight) -> None:
        """Launch the newest step around the books of the one before."""
        self._launch_forward(step)
        if step is not self._steps[0]:
            self._book()
        if self._scheduler.num_running:
            self._launch_sample(step)
            if step.plan.kind == "prefill" or self._worker.probe.is_attached:
                self._book()
        else:
            self._skip_sample()
        self._drop_ghosts()
        self._end_step(step.plan)

    def _rest(self, plan: StepPlan) -> None:
        """Nothing can be planned over the step in flight, if there is one: it is booked first."""
        if not self._steps:
            super()._rest(plan)
            return
        self._book()
        self._end_step(plan)

    def _skip_sample(self) -> None:
        """The step that was begun last has ghosts alone: it need not be ended."""

    def flush(self) -> StepOutputs:
        """See `LLMEngine.flush`."""
        super().flush()
        self._stepping = True
        self._drop_ghosts()
        self._stepping = False
        return self._ready

    def _drop_ghosts(self) -> None:
        """Steps of which no sequence is left need not be ended."""
        while self._steps and not self._scheduler.num_running:
            self._scheduler.discard(self._steps[-1].plan.step_id)
            self._steps.pop()

    @phase("launch forward")
    def _launch_forward(self, step: StepInFlight) -> None:
        self._describe(step.plan)
        with self._executes():
            self._worker.launch_forward(step.plan)

    @phase("launch sample")
    def _launch_sample(self, step: StepInFlight) -> None:
        with self._executes():
            step.plan = self._scheduler.settled(step.plan.step_id)
            step.launched = self._worker.launch_sample(step.plan)
        self._describe(step.plan)

    def _book(self) -> None:
        """Wait for the oldest step, update and emit. The worker forgets what ended before it gets more to do."""
        step = self._steps[0]
        result = self._wait(step)
        update = self._update(step.plan, result)
        self._emit(step.plan, result, update)
        self._release_ended()

    @phase("wait")
    def _wait(self, step: StepInFlight) -> StepResult:
        assert step.launched is not None, "only a step with both phases on the device is waited for"
        self._describe(step.plan)
        with self._executes():
            return step.launched.wait()

    @contextmanager
    def _executes(self) -> Generator[None, None, None]:
        """Around the worker's part of a step."""
        started = time.perf_counter()
        self._executing = True
        try:
            yield
        finally:
            self._executing = False
            self._execute_seconds += time.perf_counter() - started

    def _recover(self) -> None:
        """Behind a broken step nothing stays in flight. The newest is given up first. The one before is booked if it
        ended well: the newest may have run on top of it, so that it cannot be computed again.
        """
        if not self._stepping and not any(step.launched and step.launched.lost for step in self._steps):
            return
        self._worker.drain()
        self._discard_lost()
        while len(self._steps) > 1:
            self._recovery.give_up(self._steps[-1].plan, self._ready)
            self._steps.pop()
        if self._steps:
            self._end_broken(self._steps[0])
        self._stepping = False

    def _end_broken(self, step: StepInFlight) -> None:
        """The last step in flight; its own exception was raised before."""
        if step.launched is not None and not step.launched.failed:
            try:
                self._book()
                return
            except Exception:  # it was booked before the exception came, or cannot be
                logger.debug("step %d is given up", step.plan.step_id, exc_info=True)
        self._recovery.give_up(step.plan, self._ready)
        self._steps.popleft()
