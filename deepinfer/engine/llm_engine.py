"""The engine core: requests in, one step at a time, outputs out. `LLMEngine.step` and `_run` show how it works."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Final

import numpy as np

from deepinfer._C import Scheduler, SequenceSpec, StepPlan, StepUpdate
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_result import StepResult
from deepinfer.engine.draft_calibration import DraftCalibration
from deepinfer.engine.grammar_queue import GrammarQueue
from deepinfer.engine.load_meter import LoadMeter
from deepinfer.engine.output_processor import OutputProcessor
from deepinfer.engine.saved_prefixes import SavedPrefixes
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.step_in_flight import StepInFlight
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.engine.step_recovery import StepRecovery
from deepinfer.engine.step_worker import StepWorker
from deepinfer.errors import EngineClosedError, RequestError
from deepinfer.logging import get_logger
from deepinfer.outputs import RequestOutput
from deepinfer.profile.host_trace import HostTrace, phase
from deepinfer.profile.request_life import RequestLife
from deepinfer.worker.cost_totals import CostTotals

logger = get_logger(__name__)

_GRAMMAR_WAIT: Final = 0.05  # seconds between looks at aborts while only grammars are being compiled


class LLMEngine:
    """Schedules, executes and books. One thread at a time steps it; `abort_request` may come from any thread."""

    def __init__(
        self,
        worker: StepWorker,
        scheduler: Scheduler,
        outputs: OutputProcessor,
        log_interval: int = 0,
        grammars: GrammarQueue | None = None,
    ) -> None:
        """Args:
        worker, scheduler, outputs: the parts a step goes through.
        log_interval: steps between log lines about the load; <= 0 for none.
        grammars: compiles for structured requests; None refuses them.
        """
        self._worker = worker
        self._scheduler = scheduler
        self._outputs = outputs
        self._log_interval = log_interval
        self._grammars = grammars or GrammarQueue()
        self.prefixes = SavedPrefixes(scheduler, lambda request_id: outputs.request_of(request_id) is not None)
        self.trace: HostTrace | None = None  # notes the phases of steps while somebody traces
        self._aborts: deque[EngineRequest] = deque()
        self._ready = StepOutputs()
        self._counts: Counter[str] = Counter()
        self._steps: deque[StepInFlight] = deque()  # planned, and neither emitted nor given up; the oldest first
        self._recovery = StepRecovery(scheduler, outputs)
        self._load = LoadMeter()
        self._step_started = 0.0
        self._step_seconds = 0.0
        self._execute_seconds = 0.0
        self._closed = False
        self._executing = False

    @phase("step")
    def step(self) -> StepOutputs:
        """Advance every scheduled sequence by one step. Without work it does nothing.

        Returns what waits for the callers; who delivers it takes it off.
        """
        self._recover()
        self._apply_aborts()
        self._admit_structured()
        self._go_on()
        return self._take_ready()

    @property
    def is_executing(self) -> bool:
        """Whether the worker computes: the long part of a step, and the one that may be broken off."""
        return self._executing

    def add_request(
        self, request: EngineRequest, prompt: str | None = None, *, prompt_index: int = 0, streaming: bool = False
    ) -> None:
        """Queue a request. Raises RequestError when it can never run; nothing of it stays behind then."""
        self._require_open()
        if not self.has_unfinished_requests():
            self._load.rest()
        self._outputs.add(request, prompt, prompt_index, streaming)
        try:
            if request.constraint is not None:
                self._grammars.submit(request)
            else:
                self._start(request)
        except BaseException:
            self._scheduler.abort(request.seq_id)
            self._grammars.withdraw(request.seq_id)
            self._outputs.drop(request)
            raise
        self._counts["requests"] += 1
        self.prefixes.note(request.request_id, request.seq_id)

    def grammar_error(self, request: EngineRequest) -> Exception | None:
        """What is wrong with a request's grammar; waits until it is compiled. From any thread."""
        self._require_open()
        return None if request.constraint is None else self._grammars.error_of(request.constraint)

    def refuse(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """Answer a request that cannot run with its own error."""
        self._counts["requests"] += 1
        self._outputs.num_ended["error"] += 1
        return self._outputs.refused(request_id, error, prompt, prompt_token_ids)

    def abort_request(self, request_id: str) -> None:
        """End a request early, from any thread, any number of times.

        Only a request that is unfinished now can be meant: an unknown id is ignored, also if it is used later.
        """
        request = self._outputs.request_of(request_id)
        if request is not None:
            self._aborts.append(request)

    def flush(self) -> StepOutputs:
        """Between steps: carry out the aborts asked for; returns what waits, as `step` does."""
        self._recover()
        self._apply_aborts()
        return self._take_ready()

    def has_unfinished_requests(self) -> bool:
        """Whether a step would give somebody something."""
        return self._outputs.num_unfinished > 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until somebody adds a request."""
        return not self.has_unfinished_requests()

    def wake(self, wakes: int) -> None:
        """The front end has given requests away, `wakes` since the start: nothing to an engine by itself."""

    def request_id_of(self, seq_id: int) -> str | None:
        """Public id of an unfinished sequence, with "#<choice>" behind it for choices 1, 2, ..."""
        return self._outputs.request_id_of(seq_id)

    def unfinished_lives(self) -> list[RequestLife]:
        """How the unfinished requests have fared."""
        return self._outputs.unfinished_lives()

    def stats(self) -> EngineStats:
        """Totals and present load."""
        counters, config, ended = self._scheduler.stats(), self._scheduler.config, self._outputs.num_ended
        return EngineStats(
            num_requests=self._counts["requests"],
            num_finished=ended["stop"] + ended["length"],
            num_failed=ended["error"],
            num_aborted=ended["abort"],
            num_waiting=self._scheduler.num_waiting + self._grammars.num_pending,
            num_running=self._scheduler.num_running,
            num_blocks=config.num_blocks,
            num_free_blocks=self._scheduler.num_free_blocks,
            num_state_slots=config.num_state_slots,
            num_free_state_slots=self._scheduler.num_free_state_slots,
            num_steps=counters.num_steps,
            num_prefill_steps=counters.num_prefill_steps,
            num_decode_steps=counters.num_decode_steps,
            num_prefill_tokens=counters.num_prefill_tokens,
            num_decode_tokens=counters.num_decode_tokens,
            num_recomputed_tokens=counters.num_recomputed_tokens,
            num_generated_tokens=counters.num_generated_tokens,
            num_forked=counters.num_forked,
            num_preemptions=counters.num_preemptions,
            num_verify_steps=counters.num_verify_steps,
            num_verify_tokens=counters.num_verify_tokens,
            num_drafts_verified=counters.num_drafts_verified,
            num_drafts_accepted=counters.num_drafts_accepted,
            num_undrafted_steps=counters.num_undrafted_steps,
            verified_at=tuple(counters.verified_at.tolist()),
            accepted_at=tuple(counters.accepted_at.tolist()),
            draft_calibration=DraftCalibration.of(self._scheduler.draft_calibration()),
            cost=CostTotals.of(counters.cost),
            step_seconds=self._step_seconds,
            execute_seconds=self._execute_seconds,
            device_seconds=self._load.device_seconds,
            device_idle_seconds=self._load.device_idle_seconds,
            recent=self._load.recent(self._step_seconds, counters.num_generated_tokens),
        )

    def drain(self) -> None:
        """Wait until the device is through with every step launched; what it gave stays with the steps."""
        if not self._closed:
            self._worker.drain()

    def close(self) -> None:
        """Give everything back; idempotent. Later calls raise EngineClosedError."""
        if not self._closed:
            self._closed = True
            self._grammars.close()
            self._worker.close()

    def _start(self, request: EngineRequest) -> None:
        """Hand a request to worker and scheduler; nothing of it stays in them when it can never run."""
        try:
            for choice in request.choices:
                self._worker.add_request(choice)
            self.prefixes.require_open(request.prefix_id)
            self._scheduler.add(_sequence_spec(request))
        except BaseException as error:
            self._worker.release([choice.seq_id for choice in request.choices])
            if isinstance(error, ValueError) and not isinstance(error, RequestError):
                num_blocks = self._scheduler.config.num_blocks - self._scheduler.num_saved_blocks
                is_too_long = len(request.prompt_token_ids) > num_blocks * self._scheduler.config.block_size
                code = "capacity_exceeded" if is_too_long else "invalid_request"
                raise RequestError(str(error), code=code) from error
            raise

    def _admit_structured(self) -> None:
        """Start the requests whose grammar is compiled; a wrong grammar ends its own request."""
        for request, error in self._grammars.take_ready():
            try:
                if error is None:
                    self._start(request)
            except Exception as refused:  # whatever it is, it is this request's alone
                error = refused
            if error is not None:
                self._outputs.fail(request.seq_id, error, self._ready)

    def _go_on(self) -> None:
        """The four phases, or what is done where nothing can be computed."""
        plan = self._schedule()
        if plan.num_seqs:
            self._run(self._steps[-1])
        else:
            self._rest(plan)

    def _run(self, step: StepInFlight) -> None:
        """Phases 2 to 4 of a step that is planned."""
        plan, result = step.plan, self._execute(step)
        update = self._update(plan, result)
        self._emit(plan, result, update)
        self._end_step(plan)

    def _rest(self, _plan: StepPlan) -> None:
        """Of an empty plan: nothing can be computed."""
        if self.has_unfinished_requests() and not self._ready.finished:
            self._wait_for_grammars()

    @phase("schedule")
    def _schedule(self, kind: str | None = None) -> StepPlan:
        """Phase 1: the scheduler decides which tokens of which sequences are computed, in a step of `kind` if given."""
        self._require_open()
        self._step_started = time.perf_counter()
        self._discard_lost()
        plan = self._scheduler.schedule(kind)
        if plan.num_seqs:
            self._steps.append(StepInFlight(plan))
        self._outputs.begin_step(plan)
        self._describe(plan)
        return plan

    def _discard_lost(self) -> None:
        """A plan may have been made and lost, before anybody had it: nothing of it was computed."""
        for step_id in self._scheduler.steps_in_flight[len(self._steps) :]:
            self._scheduler.discard(step_id)

    @phase("execute")
    def _execute(self, step: StepInFlight) -> StepResult:
        """Phase 2: the worker computes them."""
        self._describe(step.plan)
        started = time.perf_counter()
        self._executing = True
        try:
            step.launched = self._worker.execute(step.plan)
            return step.launched.wait()
        finally:
            self._executing = False
            self._execute_seconds += time.perf_counter() - started

    @phase("update")
    def _update(self, plan: StepPlan, result: StepResult) -> StepUpdate:
        """Phase 3: the scheduler books the new tokens; sequences with an error of their own leave it first."""
        self._describe(plan)
        for seq_id in result.errors:
            self._scheduler.abort(seq_id)
        if result.ms is not None:
            ms = result.ms
            self._scheduler.observe_step_ms(plan.step_id, forward=ms.forward, sample=ms.sample, draft=ms.draft)
        return self._scheduler.update(plan.step_id, *result.flat_tokens(), result.draft_ids, result.confidences)

    @phase("emit")
    def _emit(self, plan: StepPlan, result: StepResult, update: StepUpdate) -> None:
        """Phase 4: tokens become texts and outputs; ended sequences are forgotten.

        A fault of one request's text ends that request (`OutputProcessor.process`).
        """
        self._describe(plan)
        self._outputs.process(plan, result, update, self._ready)
        step = self._steps.popleft()
        self._worker.probe.end_step(self._ready.num_fed)
        self._ready.num_fed = {}
        self._measure(step)

    def _measure(self, step: StepInFlight) -> None:
        """Take the device's times of a step that was waited for."""
        assert step.launched is not None, "only such a step is emitted"
        self._load.book(step.launched)
        if self.trace is not None:
            self.trace.add_device(step.plan, step.launched)

    def _end_step(self, plan: StepPlan) -> None:
        """Count the time, and say what was done."""
        self._step_seconds += time.perf_counter() - self._step_started
        if self._load.is_due(self._step_seconds):
            self._load.mark(self._step_seconds, self._scheduler.stats().num_generated_tokens)
        if self._log_interval > 0 and (plan.step_id + 1) % self._log_interval == 0:
            kind, rows = plan.kind, plan.num_tokens
            logger.info("step %d (%s, %d rows): %s", plan.step_id, kind, rows, self.stats().load_line())
        self._describe(plan)

    def _describe(self, plan: StepPlan) -> None:
        """For a trace: the phase that ends next works on this step."""
        if self.trace is not None:
            self.trace.describe(plan)

    def _recover(self) -> None:
        """Give up what an exception broke off; without one, nothing is in flight between steps."""
        if self._steps:
            self._worker.drain()
        while self._steps:
            self._recovery.give_up(self._steps[-1].plan, self._ready)
            self._steps.pop()

    def _wait_for_grammars(self) -> None:
        """Nothing can be computed: sleep while grammars are compiled. Without any, requests that are unfinished all the
        same were lost on their way by an exception from outside: they end with an error, so that nobody waits for ever.
        """
        if not self._grammars.num_pending and not self._scheduler.has_unfinished():
            error = RequestError("this request was interrupted before it began", code="step_interrupted")
            self._outputs.give_up(self._outputs.running_seq_ids(), error, self._ready)
        self._grammars.wait(_GRAMMAR_WAIT)

    def _apply_aborts(self) -> None:
        while self._aborts:
            request = self._aborts[0]
            for seq_id in self._outputs.seq_ids_of(request):
                self._scheduler.abort(seq_id)
                self._grammars.withdraw(seq_id)
            self._outputs.abort(request, self._ready)
            self._aborts.popleft()

    def _take_ready(self) -> StepOutputs:
        """What waits for the callers; the worker forgets what has ended."""
        if self.trace is not None:
            self.trace.add_ended(self._ready.finished)
        self._release_ended()
        return self._ready

    def _release_ended(self) -> None:
        self._worker.release(self._ready.ended_seq_ids)
        self._ready.ended_seq_ids.clear()

    def _require_open(self) -> None:
        if self._closed:
            raise EngineClosedError("this engine is closed; build a new LLM")


def _sequence_spec(request: EngineRequest) -> SequenceSpec:
    return SequenceSpec(
        seq_id=request.seq_id,
        prompt_token_ids=request.prompt_token_ids,
        max_tokens=request.max_tokens,
        stop_token_ids=np.asarray(request.stop_token_ids, dtype=np.int32),
        min_tokens=request.params.min_tokens,
        fork_seq_ids=[fork.seq_id for fork in request.forks],
        prefix_id=-1 if request.prefix_id is None else request.prefix_id,
    )
