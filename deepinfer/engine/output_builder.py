"""Makes the public values of a request, deltas and outputs, from its state."""

from __future__ import annotations

import time
from dataclasses import replace

from deepinfer.core.step_result import SampledToken
from deepinfer.engine.choice_state import ChoiceState
from deepinfer.engine.request_state import RequestState
from deepinfer.engine.run_modes import RunModes
from deepinfer.outputs import (
    CompletionOutput,
    PromptLogprobList,
    RequestDelta,
    RequestMetrics,
    RequestOutput,
    TokenLogprobs,
)
from deepinfer.text.tokenizer import Tokenizer


class OutputBuilder:
    """Reads states, never changes them but for what deltas have given out."""

    def __init__(self, tokenizer: Tokenizer, modes: RunModes) -> None:
        self._tokenizer = tokenizer
        self._modes = modes

    def delta(self, state: RequestState, choice: ChoiceState) -> RequestDelta:
        """What one completion got since its last delta."""
        unsent = choice.take_unsent_tokens()
        wants_logprobs = choice.request.params.logprobs is not None
        return RequestDelta(
            request_id=state.request.request_id,
            prompt_index=state.prompt_index,
            choice=choice.request.choice,
            text=choice.take_unsent_text(),
            token_ids=choice.token_ids[unsent],
            logprobs=self._logprobs(choice.samples[unsent]) if wants_logprobs else None,
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
            error=choice.failure,
        )

    def output(self, state: RequestState) -> RequestOutput:
        """The output of a request whose choices have all ended."""
        request = state.request
        failures = [choice.failure for choice in state.choices if choice.failure is not None]
        return RequestOutput(
            request_id=request.request_id,
            prompt=state.prompt,
            prompt_token_ids=request.prompt_token_ids.tolist(),
            outputs=[self._completion(choice) for choice in state.choices],
            prompt_logprobs=self._prompt_logprobs(state),
            num_cached_tokens=state.num_cached_tokens,
            error=failures[0] if failures else None,
            metrics=self._metrics(state),
        )

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

    def _logprobs(self, samples: list[SampledToken]) -> TokenLogprobs:
        return TokenLogprobs.from_samples(samples, self._tokenizer.decode_token)

    def _completion(self, choice: ChoiceState) -> CompletionOutput:
        logprobs = self._logprobs(choice.samples) if choice.request.params.logprobs is not None else None
        return CompletionOutput(
            index=choice.request.choice,
            text=choice.text(self._tokenizer),
            token_ids=choice.token_ids,
            cumulative_logprob=None if logprobs is None else logprobs.cumulative(),
            logprobs=logprobs,
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
            num_draft_tokens=choice.num_draft_tokens,
            num_accepted_tokens=choice.num_accepted_tokens,
            confidence=tuple(choice.confidences) if self._modes.report_confidences else None,
            error=choice.failure,
            grammar_complete=choice.has_whole_value,
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
            num_generated_tokens=sum(len(choice.token_ids) for choice in state.choices),
            num_preemptions=state.num_preemptions,
            seed=state.request.seed,
            batch_invariant=self._modes.batch_invariant,
            numerics=self._modes.numerics,
            backend=self._modes.backend,
        )
