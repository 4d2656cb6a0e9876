"""From a step's tokens to texts, log-probabilities and finished outputs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from deepinfer._C import StepPlan, StepUpdate
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_result import SampledToken, StepResult
from deepinfer.engine.request_state import RequestState
from deepinfer.engine.run_modes import RunModes
from deepinfer.engine.sequence_finisher import SequenceFinisher
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.outputs import (
    CompletionOutput,
    PromptLogprobList,
    RequestDelta,
    RequestFailure,
    RequestMetrics,
    RequestOutput,
    TokenLogprobs,
)
from deepinfer.outputs.completion_output import FinishReason
from deepinfer.text.tokenizer import Tokenizer

_RUNNING: Final = 0
_REASONS: Final[dict[int, FinishReason]] = {1: "stop", 2: "length"}


class OutputProcessor:
    """Holds the state of every unfinished request. The text rim: nothing below it knows a tokenizer."""

    def __init__(
        self, tokenizer: Tokenizer, eos_token_ids: tuple[int, ...], modes: RunModes, finisher: SequenceFinisher
    ) -> None:
        self._tokenizer = tokenizer
        self._eos_token_ids = frozenset(eos_token_ids)
        self._modes = modes
        self._finisher = finisher
        self._states: dict[int, RequestState] = {}
        self._seq_ids: dict[str, int] = {}

    @property
    def num_unfinished(self) -> int:
        """Requests without a final output."""
        return len(self._states)

    def add(self, request: EngineRequest, prompt: str | None, prompt_index: int, streaming: bool) -> None:
        """Remember a new request."""
        state = RequestState.start(request, prompt, prompt_index, streaming, time.monotonic())
        if streaming or request.params.stop:
            state.follow_text(self._tokenizer)
        self._states[request.seq_id] = state
        self._seq_ids[request.request_id] = request.seq_id

    def drop(self, seq_id: int) -> None:
        """Forget a request that never started."""
        state = self._states.pop(seq_id, None)
        if state is not None:
            del self._seq_ids[state.request.request_id]

    def seq_id_of(self, request_id: str) -> int | None:
        """Sequence of an unfinished request, None for any other."""
        return self._seq_ids.get(request_id)

    def request_id_of(self, seq_id: int) -> str | None:
        """Public id of an unfinished sequence, None for any other."""
        state = self._states.get(seq_id)
        return None if state is None else state.request.request_id

    def begin_step(self, plan: StepPlan) -> None:
        """Note what the scheduler decided: first starts and preemptions."""
        for seq_id in plan.preempted_seq_ids.tolist():
            if seq_id in self._states:
                self._states[seq_id].num_preemptions += 1
        if plan.kind != "prefill":
            return
        now = time.monotonic()
        for seq_id in plan.seq_ids.tolist():
            state = self._states.get(seq_id)
            if state is not None and state.first_scheduled_time is None:
                state.first_scheduled_time = now

    def process(self, plan: StepPlan, result: StepResult, update: StepUpdate) -> StepOutputs:
        """Take a step's tokens and scores; returns what callers get from it."""
        outputs = StepOutputs()
        now = time.monotonic()
        seq_ids = plan.seq_ids.tolist()
        for seq_id, error in result.errors.items():
            self._end(seq_id, "error", outputs, error=error)
        for seq_id, scores in zip(seq_ids, result.prompt_logprobs, strict=True):
            state = self._states.get(seq_id) if scores is not None else None
            if state is not None and state.scores is not None and scores is not None:
                state.scores.add(scores)
        samples = dict(zip(seq_ids, result.samples, strict=True))
        bounds, tokens = update.cu_tokens.tolist(), update.tokens.tolist()
        reasons, stop_ids = update.finish_reasons.tolist(), update.stop_token_ids.tolist()
        for place, seq_id in enumerate(update.seq_ids.tolist()):
            state = self._states.get(seq_id)
            if state is None:
                continue
            new_tokens = tokens[bounds[place] : bounds[place + 1]]
            self._take(state, new_tokens, samples[seq_id], now)
            self._settle(state, reasons[place], stop_ids[place], outputs)
        return outputs

    def abort(self, seq_id: int) -> StepOutputs:
        """End a request with what it has; empty for an unknown one."""
        outputs = StepOutputs()
        self._end(seq_id, "abort", outputs)
        return outputs

    def fail(self, seq_id: int, error: Exception) -> StepOutputs:
        """End a request with its own error; empty for an unknown one."""
        outputs = StepOutputs()
        self._end(seq_id, "error", outputs, error=error)
        return outputs

    def refused(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """The output of a request that never ran."""
        output = RequestOutput.failed(request_id, error, prompt, prompt_token_ids)
        metrics = RequestMetrics(
            num_prompt_tokens=len(prompt_token_ids),
            batch_invariant=self._modes.batch_invariant,
            numerics=self._modes.numerics,
            backend=self._modes.backend,
        )
        return replace(output, metrics=metrics)

    def _take(self, state: RequestState, tokens: list[int], samples: list[SampledToken], now: float) -> None:
        if tokens and state.first_token_time is None:
            state.first_token_time = now
        wants_logprobs = state.request.params.logprobs is not None
        state.add_tokens(tokens, samples[: len(tokens)] if wants_logprobs else ())

    def _settle(self, state: RequestState, reason: int, stop_id: int, outputs: StepOutputs) -> None:
        """Decide whether the request goes on; a completed stop string wins over the scheduler's reason."""
        seq_id, match = state.request.seq_id, state.match
        if match is not None:
            self._finisher.finish(seq_id, len(state.token_ids))
            self._end(seq_id, "stop", outputs, stop_reason=match.stop)
        elif reason != _RUNNING:
            stop_reason = None if stop_id < 0 or stop_id in self._eos_token_ids else stop_id
            self._end(seq_id, _REASONS[reason], outputs, stop_reason=stop_reason)
        elif state.streaming:
            outputs.deltas.append(self._delta(state))

    def _end(
        self,
        seq_id: int,
        reason: FinishReason,
        outputs: StepOutputs,
        stop_reason: str | int | None = None,
        error: Exception | None = None,
    ) -> None:
        state = self._states.pop(seq_id, None)
        if state is None:
            return
        del self._seq_ids[state.request.request_id]
        state.finish_text()
        failure = None if error is None else RequestFailure.from_exception(error)
        if state.streaming:
            outputs.deltas.append(self._delta(state, reason, stop_reason, failure))
        if state.scores is not None:
            outputs.scores[state.request.request_id] = state.scores
        completion = self._completion(state, reason, stop_reason)
        outputs.finished.append(self._output(state, completion, failure))
        outputs.ended_seq_ids.append(seq_id)

    def _delta(
        self,
        state: RequestState,
        reason: FinishReason | None = None,
        stop_reason: str | int | None = None,
        failure: RequestFailure | None = None,
    ) -> RequestDelta:
        unsent = state.take_unsent_tokens()
        wants_logprobs = state.request.params.logprobs is not None
        return RequestDelta(
            request_id=state.request.request_id,
            prompt_index=state.prompt_index,
            choice=state.request.choice,
            text=state.take_unsent_text(),
            token_ids=state.token_ids[unsent],
            logprobs=self._logprobs(state.samples[unsent]) if wants_logprobs else None,
            finish_reason=reason,
            stop_reason=stop_reason,
            error=failure,
        )

    def _logprobs(self, samples: list[SampledToken]) -> TokenLogprobs:
        return TokenLogprobs.from_samples(samples, self._tokenizer.decode_token)

    def _completion(self, state: RequestState, reason: FinishReason, stop_reason: str | int | None) -> CompletionOutput:
        logprobs = self._logprobs(state.samples) if state.request.params.logprobs is not None else None
        return CompletionOutput(
            index=state.request.choice,
            text=state.text(self._tokenizer),
            token_ids=state.token_ids,
            cumulative_logprob=None if logprobs is None else logprobs.cumulative(),
            logprobs=logprobs,
            finish_reason=reason,
            stop_reason=stop_reason,
        )

    def _output(
        self, state: RequestState, completion: CompletionOutput, failure: RequestFailure | None
    ) -> RequestOutput:
        request = state.request
        return RequestOutput(
            request_id=request.request_id,
            prompt=state.prompt,
            prompt_token_ids=request.prompt_token_ids.tolist(),
            outputs=[completion],
            prompt_logprobs=self._prompt_logprobs(state),
            error=failure,
            metrics=self._metrics(state),
        )

    def _prompt_logprobs(self, state: RequestState) -> PromptLogprobList | None:
        scores, request = state.scores, state.request
        if scores is None or request.params.prompt_logprobs is None or not scores.is_complete:
            return None
        return PromptLogprobList(
            token_ids=request.prompt_token_ids,
            start=scores.start,
            logprobs=scores.logprobs,
            ranks=scores.ranks,
            top_ids=scores.top_ids,
            top_logprobs=scores.top_logprobs,
            decode=self._tokenizer.decode_token,
        )

    def _metrics(self, state: RequestState) -> RequestMetrics:
        return RequestMetrics(
            arrival_time=state.arrival_time,
            first_scheduled_time=state.first_scheduled_time,
            first_token_time=state.first_token_time,
            finished_time=time.monotonic(),
            num_prompt_tokens=len(state.request.prompt_token_ids),
            num_generated_tokens=len(state.token_ids),
            num_preemptions=state.num_preemptions,
            seed=state.request.seed,
            batch_invariant=self._modes.batch_invariant,
            numerics=self._modes.numerics,
            backend=self._modes.backend,
        )
