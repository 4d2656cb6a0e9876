"""The engine core: requests in, one step at a time, outputs out. `LLMEngine.step` is the whole architecture."""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Final

import numpy as np

from deepinfer._C import Scheduler, SequenceSpec, StepPlan, StepUpdate
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_result import StepResult
from deepinfer.engine.grammar_queue import GrammarQueue
from deepinfer.engine.output_processor import OutputProcessor
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.engine.step_worker import StepWorker
from deepinfer.errors import EngineClosedError, RequestError
from deepinfer.logging import get_logger
from deepinfer.outputs import RequestOutput

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
        self._aborts: deque[EngineRequest] = deque()
        self._ready = StepOutputs()
        self._counts: Counter[str] = Counter()
        self._step_started = 0.0
        self._step_seconds = 0.0
        self._execute_seconds = 0.0
        self._closed = False
        self._unfinished: StepPlan | None = None  # planned, and neither booked nor given up

    def step(self) -> StepOutputs:
        """Advance every scheduled sequence by one step. Without work it does nothing."""
        self._apply_aborts()
        self._admit_structured()
        plan = self._schedule()
        if plan.num_seqs:
            result = self._execute(plan)
            update = self._update(plan, result)
            self._emit(plan, result, update)
        elif not self._ready.finished:
            self._grammars.wait(_GRAMMAR_WAIT)
        return self._take_ready()

    def add_request(
        self, request: EngineRequest, prompt: str | None = None, *, prompt_index: int = 0, streaming: bool = False
    ) -> None:
        """Queue a request. Raises RequestError when it can never run; nothing of it stays behind then."""
        self._require_open()
        self._outputs.add(request, prompt, prompt_index, streaming)
        try:
            if request.constraint is not None:
                self._grammars.submit(request)
            else:
                self._start(request)
        except BaseException:
            self._outputs.drop(request)
            raise
        self._counts["requests"] += 1

    def grammar_error(self, request: EngineRequest) -> Exception | None:
        """What is wrong with a request's grammar; waits until it is compiled. From any thread."""
        self._require_open()
        return None if request.constraint is None else self._grammars.error_of(request.constraint)

    def refuse(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """Answer a request that cannot run with its own error."""
        self._counts.update(("requests", "error"))
        return self._outputs.refused(request_id, error, prompt, prompt_token_ids)

    def abort_request(self, request_id: str) -> None:
        """End a request early, from any thread, any number of times.

        Only a request that is unfinished now can be meant: an unknown id is ignored, also if it is used later.
        """
        request = self._outputs.request_of(request_id)
        if request is not None:
            self._aborts.append(request)

    def flush(self) -> StepOutputs:
        """Between steps: carry out the aborts asked for and give out what they ended."""
        self._apply_aborts()
        return self._take_ready()

    def has_unfinished_requests(self) -> bool:
        """Whether a step would give somebody something."""
        return self._outputs.num_unfinished > 0

    def request_id_of(self, seq_id: int) -> str | None:
        """Public id of an unfinished sequence, with "#<choice>" behind it for choices 1, 2, ..."""
        return self._outputs.request_id_of(seq_id)

    def stats(self) -> EngineStats:
        """Totals and present load."""
        counters, config = self._scheduler.stats(), self._scheduler.config
        return EngineStats(
            num_requests=self._counts["requests"],
            num_finished=self._counts["stop"] + self._counts["length"],
            num_failed=self._counts["error"],
            num_aborted=self._counts["abort"],
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
            step_seconds=self._step_seconds,
            execute_seconds=self._execute_seconds,
        )

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
            self._scheduler.add(_sequence_spec(request))
        except BaseException as error:
            self._worker.release([choice.seq_id for choice in request.choices])
            if isinstance(error, ValueError) and not isinstance(error, RequestError):
                is_too_long = len(request.prompt_token_ids) > self._scheduler.capacity_tokens
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
                self._collect(self._outputs.fail(request.seq_id, error))

    def _schedule(self) -> StepPlan:
        """Phase 1: the scheduler decides which tokens of which sequences are computed."""
        self._require_open()
        self._give_up_unfinished()
        self._step_started = time.perf_counter()
        plan = self._unfinished = self._scheduler.schedule()
        self._outputs.begin_step(plan)
        return plan

    def _give_up_unfinished(self) -> None:
        """Discard a step that an exception from outside (a signal handler's) broke off between the phases."""
        plan, self._unfinished = self._unfinished, None
        if plan is None or not plan.num_seqs:
            return
        try:
            self._scheduler.discard(plan.step_id)
        except ValueError:  # it had been booked or given up just before
            return
        self._fail_interrupted(plan)

    def _execute(self, plan: StepPlan) -> StepResult:
        """Phase 2: the worker computes them."""
        started = time.perf_counter()
        try:
            return self._worker.execute(plan)
        except BaseException:
            self._scheduler.discard(plan.step_id)
            self._fail_interrupted(plan)
            raise
        finally:
            self._execute_seconds += time.perf_counter() - started

    def _update(self, plan: StepPlan, result: StepResult) -> StepUpdate:
        """Phase 3: the scheduler books the new tokens; sequences with an error of their own leave it first."""
        for seq_id in result.errors:
            self._scheduler.abort(seq_id)
        tokens = [token.token_id for samples in result.samples for token in samples]
        cu_tokens = np.zeros(plan.num_seqs + 1, dtype=np.int32)
        np.cumsum([len(samples) for samples in result.samples], out=cu_tokens[1:])
        try:
            update = self._scheduler.update(
                plan.step_id, np.asarray(tokens, dtype=np.int32), cu_tokens, result.draft_ids, result.confidences
            )
        except ValueError:
            self._scheduler.discard(plan.step_id)
            raise
        self._unfinished = None
        return update

    def _emit(self, plan: StepPlan, result: StepResult, update: StepUpdate) -> None:
        """Phase 4: tokens become texts and outputs; ended sequences are forgotten.

        The scheduler has booked the tokens, so they cannot come again. A fault of one request's text ends that request
        (`OutputProcessor.process`); if this phase itself is broken off, by a second Ctrl-C, every sequence of the step
        ends with an error of its own instead of going on with a gap.
        """
        outputs = StepOutputs()
        try:
            self._outputs.process(plan, result, update, outputs)
        except BaseException:
            self._fail_all(update.seq_ids.tolist(), "the step that made this output was interrupted")
            raise
        finally:
            self._collect(outputs)
        self._worker.probe.end_step(outputs.num_fed)
        self._step_seconds += time.perf_counter() - self._step_started
        if self._log_interval > 0 and (plan.step_id + 1) % self._log_interval == 0:
            logger.info("step %d: %s", plan.step_id, self.stats())

    def _apply_aborts(self) -> None:
        while self._aborts:
            request = self._aborts[0]
            for seq_id in self._outputs.seq_ids_of(request):
                self._scheduler.abort(seq_id)
                self._grammars.withdraw(seq_id)
            self._collect(self._outputs.abort(request))
            self._aborts.popleft()

    def _fail_interrupted(self, plan: StepPlan) -> None:
        """After a step that broke off: a later chunk of a prefill cannot be computed again, as its rings may be
        overwritten already. Such sequences end with an error; all others of the plan can repeat the step.
        """
        if plan.kind != "prefill":
            return
        seq_ids = plan.seq_ids[plan.context_lens > 0].tolist()
        self._fail_all(seq_ids, "the step that computed this prompt was interrupted")

    def _fail_all(self, seq_ids: list[int], reason: str) -> None:
        for seq_id in seq_ids:
            self._scheduler.abort(seq_id)
            self._collect(self._outputs.fail(seq_id, RequestError(reason, code="step_interrupted")))

    def _collect(self, outputs: StepOutputs) -> None:
        self._ready.extend(outputs)
        if outputs.ended_seq_ids:
            self._worker.release(outputs.ended_seq_ids)
            self._counts.update(_ending(output) for output in outputs.finished)

    def _take_ready(self) -> StepOutputs:
        ready, self._ready = self._ready, StepOutputs()
        return ready

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
    )


def _ending(output: RequestOutput) -> str:
    """What a request counts as: an error or an abort of any choice decides."""
    reasons = [completion.finish_reason for completion in output.outputs]
    return next((reason for reason in ("error", "abort") if reason in reasons), reasons[0] or "")
