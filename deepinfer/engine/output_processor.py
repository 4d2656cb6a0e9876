"""From a step's tokens to texts, log-probabilities and finished outputs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from typing import Final

import numpy as np

from deepinfer._C import StepPlan, StepUpdate
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.sequence_end import SequenceEnd
from deepinfer.core.step_result import SampledToken, StepResult
from deepinfer.engine.choice_state import ChoiceState
from deepinfer.engine.output_builder import OutputBuilder
from deepinfer.engine.request_state import RequestState
from deepinfer.engine.run_modes import RunModes
from deepinfer.engine.sequence_finisher import SequenceFinisher
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.errors import RequestError
from deepinfer.logging import get_logger
from deepinfer.outputs import RequestDelta, RequestFailure, RequestOutput
from deepinfer.outputs.completion_output import CACHE_CAPACITY, FinishReason
from deepinfer.profile.request_life import RequestLife
from deepinfer.text.tokenizer import Tokenizer

logger = get_logger(__name__)

_RUNNING: Final = 0
_REASONS: Final[dict[int, FinishReason]] = {1: "stop", 2: "length"}


class OutputProcessor:
    """Holds the state of every unfinished request. The text rim: nothing below it knows a tokenizer."""

    def __init__(
        self, tokenizer: Tokenizer, eos_token_ids: tuple[int, ...], modes: RunModes, finisher: SequenceFinisher
    ) -> None:
        self._tokenizer = tokenizer
        self._eos_token_ids = frozenset(eos_token_ids)
        self._builder = OutputBuilder(tokenizer, modes)
        self._keeps_confidences = modes.report_confidences
        self._finisher = finisher
        self._requests: dict[str, RequestState] = {}
        self._sequences: dict[int, tuple[RequestState, ChoiceState]] = {}  # the running choices
        self._has_warned = False
        self.num_ended: Counter[str] = Counter()  # requests by how they ended

    @property
    def num_unfinished(self) -> int:
        """Requests without a final output."""
        return len(self._requests)

    def add(self, request: EngineRequest, prompt: str | None, prompt_index: int, streaming: bool) -> None:
        """Remember a new request with all its choices."""
        state = RequestState.start(request, prompt, prompt_index, streaming, time.monotonic())
        self._requests[request.request_id] = state
        for choice in state.choices:
            if streaming or request.params.stop:
                choice.follow_text(self._tokenizer)
            self._sequences[choice.request.seq_id] = (state, choice)

    def drop(self, request: EngineRequest) -> None:
        """Forget a request that never started."""
        self._requests.pop(request.request_id, None)
        for choice in request.choices:
            self._sequences.pop(choice.seq_id, None)

    def request_of(self, request_id: str) -> EngineRequest | None:
        """The unfinished request with this id; from any thread."""
        state = self._requests.get(request_id)
        return None if state is None else state.request

    def seq_ids_of(self, request: EngineRequest) -> list[int]:
        """Running sequences of an unfinished request by choice, none for any other."""
        state = self._state_of(request)
        return [] if state is None else [choice.request.seq_id for choice in state.running_choices()]

    def request_id_of(self, seq_id: int) -> str | None:
        """Public id of an unfinished sequence, with "#<choice>" behind it for choices 1, 2, ...; None for any other."""
        found = self._sequences.get(seq_id)
        if found is None:
            return None
        request = found[1].request
        return f"{request.request_id}#{request.choice}" if request.choice else request.request_id

    def unfinished_lives(self) -> list[RequestLife]:
        """How the unfinished requests have fared."""
        return [state.life() for state in self._requests.values()]

    def begin_step(self, plan: StepPlan) -> None:
        """Note what the scheduler decided: first starts and preemptions."""
        for seq_id in plan.preempted_seq_ids.tolist():
            if seq_id in self._sequences:
                self._sequences[seq_id][0].num_preemptions += 1
        if plan.kind != "prefill":
            return
        now = time.monotonic()
        for seq_id, num_cached in zip(plan.seq_ids.tolist(), plan.window_starts.tolist(), strict=True):
            found = self._sequences.get(seq_id)
            if found is not None and found[0].first_scheduled_time is None:
                found[0].first_scheduled_time = now
                found[0].num_cached_tokens = num_cached

    def process(self, plan: StepPlan, result: StepResult, update: StepUpdate, outputs: StepOutputs) -> None:
        """Take a step's tokens and scores; adds what callers get from it to `outputs`.

        A request whose output cannot be made ends with that error; the others keep their tokens.
        """
        if result.errors:
            num_fed = plan.context_lens + np.diff(plan.cu_seqlens_q) - plan.num_drafts
            fed = dict(zip(plan.seq_ids.tolist(), num_fed.tolist(), strict=True))
            outputs.num_fed.update({seq_id: fed[seq_id] for seq_id in result.errors if seq_id in fed})
        for seq_id, error in result.errors.items():
            self._fail(seq_id, error, outputs)
        self._take_scores(plan, result, outputs)
        samples = _samples_by_sequence(plan, result)
        drafts = _drafts_by_sequence(plan)
        bounds, tokens = update.cu_tokens.tolist(), update.tokens.tolist()
        reasons, stop_ids = update.finish_reasons.tolist(), update.stop_token_ids.tolist()
        for place, seq_id in enumerate(update.seq_ids.tolist()):
            found = self._sequences.get(seq_id)
            if found is None:
                self._finisher.finish(seq_id, 0)  # nobody waits for it
                continue
            state, choice = found
            new_tokens = tokens[bounds[place] : bounds[place + 1]]
            try:
                num_kept = self._take_tokens(state, choice, new_tokens, samples.get(seq_id, []))
                if num_kept:
                    choice.count_drafts(drafts.get(seq_id, []), num_kept)
                    outputs.num_fed[seq_id] = len(choice.request.prompt_token_ids) + len(choice.token_ids) - 1
                self._settle(state, choice, reasons[place], stop_ids[place], outputs)
            except Exception as error:
                self._drop_broken(state, error, outputs)
        if self._keeps_confidences:
            self._note_confidences(plan, result)

    def abort(self, request: EngineRequest, outputs: StepOutputs) -> None:
        """End what is left of a request with what it has; nothing for one that has ended. May be repeated when it was
        broken off.
        """
        state = self._state_of(request)
        if state is None:
            return
        for choice in state.running_choices():
            self._end(state, choice, "abort", outputs)
        if self._is_torn(state):
            self._drop_broken(state, RequestError("the abort was interrupted", code="step_interrupted"), outputs)

    def fail(self, seq_id: int, error: Exception, outputs: StepOutputs) -> None:
        """End a sequence with its own error, and those that begin with it; nothing for an unknown one."""
        self._fail(seq_id, error, outputs)

    def running_seq_ids(self) -> list[int]:
        """Every sequence that has not ended."""
        return list(self._sequences)

    def give_up(self, seq_ids: Collection[int], error: Exception, outputs: StepOutputs) -> None:
        """End sequences whose step broke off at any line of this class: what is whole keeps its tokens and gets the
        error, of a request that is torn only the error is left.
        """
        for state in list(self._requests.values()):
            mine = [choice for choice in state.choices if choice.request.seq_id in seq_ids]
            for choice in mine:
                self._fail(choice.request.seq_id, error, outputs)
            if mine and self._is_torn(state):
                self._drop_broken(state, error, outputs)

    def _is_torn(self, state: RequestState) -> bool:
        """Whether a choice is half ended, or all are ended but not the request."""
        if state.request.request_id not in self._requests:
            return False
        running = [choice for choice in state.choices if choice.request.seq_id in self._sequences]
        return not running or any(choice.finish_reason is not None for choice in running)

    def refused(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """The output of a request that never ran."""
        return self._builder.refused(request_id, error, prompt, prompt_token_ids)

    def _state_of(self, request: EngineRequest) -> RequestState | None:
        """None once the request has ended, also if another one has its id now."""
        state = self._requests.get(request.request_id)
        return None if state is None or state.request is not request else state

    def _take_tokens(
        self, state: RequestState, choice: ChoiceState, new_tokens: list[int], samples: list[SampledToken]
    ) -> int:
        """Append new tokens; returns how many stay, as a stop string may end the text inside them."""
        num_before = len(choice.token_ids)
        if new_tokens and state.first_token_time is None:
            state.first_token_time = time.monotonic()
        wants_logprobs = choice.request.params.logprobs is not None
        choice.add_tokens(new_tokens, samples[: len(new_tokens)] if wants_logprobs else ())
        if new_tokens:
            choice.take_grammar(samples[len(new_tokens) - 1])
        return len(choice.token_ids) - num_before

    def _note_confidences(self, plan: StepPlan, result: StepResult) -> None:
        """Keep the confidences of the drafts made behind this step, until a later one judges them."""
        for row, seq_id in enumerate(_draft_owners(plan)):
            if (found := self._sequences.get(seq_id)) is not None:
                values = () if result.confidences is None else result.confidences[row].tolist()
                found[1].pending_confidences = tuple(values)

    def _drop_broken(self, state: RequestState, error: Exception, outputs: StepOutputs) -> None:
        """End a request whose output cannot be made any more: no text, no tokens, only the error."""
        request = state.request
        if request.request_id not in self._requests:
            return
        logger.error("the output of request %r cannot be made", request.request_id, exc_info=error)
        for choice in state.choices:
            if self._sequences.pop(choice.request.seq_id, None) is not None:
                self._finisher.finish(choice.request.seq_id, 0)
            outputs.ended_seq_ids.append(choice.request.seq_id)
        failed = self._builder.refused(request.request_id, error, state.prompt, request.prompt_token_ids.tolist())
        if state.streaming:
            outputs.deltas.append(
                RequestDelta(
                    request.request_id, state.prompt_index, 0, "", [], finish_reason="error", error=failed.error
                )
            )
        self.num_ended["error"] += 1
        outputs.finished.append(failed)
        self._requests.pop(request.request_id)

    def _take_scores(self, plan: StepPlan, result: StepResult, outputs: StepOutputs) -> None:
        for seq_id, scores in zip(plan.seq_ids.tolist(), result.prompt_logprobs, strict=True):
            found = self._sequences.get(seq_id) if scores is not None else None
            if found is None or found[0].scores is None or scores is None:
                continue
            try:
                found[0].scores.add(scores)
            except Exception as error:
                self._drop_broken(found[0], error, outputs)

    def _settle(
        self, state: RequestState, choice: ChoiceState, reason: int, stop_id: int, outputs: StepOutputs
    ) -> None:
        """Decide whether a choice goes on; a completed stop string wins over the scheduler's reason."""
        match = choice.match
        if match is not None:
            self._finisher.finish(choice.request.seq_id, len(choice.token_ids))
            choice.stop_reason = match.stop
            self._end(state, choice, "stop", outputs)
        elif choice.hits_stop_id:
            self._finisher.finish(choice.request.seq_id, len(choice.token_ids))
            choice.stop_reason = choice.token_ids[-1]
            self._end(state, choice, "stop", outputs)
        elif reason != _RUNNING:
            choice.stop_reason = None if stop_id < 0 or stop_id in self._eos_token_ids else stop_id
            if _REASONS[reason] == "length" and len(choice.token_ids) < choice.request.max_tokens:
                self._note_full_cache(choice)
            self._end(state, choice, _REASONS[reason], outputs)
        elif state.streaming:
            outputs.deltas.append(self._builder.delta(state, choice))

    def _note_full_cache(self, choice: ChoiceState) -> None:
        """The scheduler ended a sequence that, alone in the cache, had no room for its next token."""
        choice.stop_reason = CACHE_CAPACITY
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "request %r was cut at %d new tokens: the cache without saved prefixes is too small for it; raise "
                "kv_cache_bytes (further cuts show as stop_reason %r only)",
                choice.request.request_id,
                len(choice.token_ids),
                CACHE_CAPACITY,
            )

    def _fail(self, seq_id: int, error: Exception, outputs: StepOutputs) -> None:
        found = self._sequences.get(seq_id)
        if found is None:
            return
        state = found[0]
        for choice in state.hit_by_error(seq_id):
            is_complete = isinstance(error, SequenceEnd)
            choice.failure = None if is_complete else RequestFailure.from_exception(error)
            self._end(state, choice, "stop" if is_complete else "error", outputs)

    def _end(self, state: RequestState, choice: ChoiceState, reason: FinishReason, outputs: StepOutputs) -> None:
        """A choice has ended, and with the last one the request."""
        try:
            self._finish(state, choice, reason, outputs)
        except Exception as error:
            self._drop_broken(state, error, outputs)

    def _finish(self, state: RequestState, choice: ChoiceState, reason: FinishReason, outputs: StepOutputs) -> None:
        if choice.request.seq_id not in self._sequences:  # its request was dropped a moment ago
            return
        choice.finish_reason = reason
        choice.finish_text()
        if choice.match is not None and reason in ("stop", "length"):  # the end itself may have completed it
            choice.finish_reason, choice.stop_reason = "stop", choice.match.stop
        outputs.ended_seq_ids.append(choice.request.seq_id)
        if state.streaming:
            outputs.deltas.append(self._builder.delta(state, choice))
        del self._sequences[choice.request.seq_id]
        if state.is_open(self._sequences):
            return
        output = self._builder.output(state)
        if state.scores is not None:
            outputs.scores[output.request_id] = state.scores
        self.num_ended[_ending(output)] += 1
        outputs.finished.append(output)
        del self._requests[output.request_id]


def _samples_by_sequence(plan: StepPlan, result: StepResult) -> dict[int, list[SampledToken]]:
    """New tokens of every sequence, the first ones of forks included."""
    samples = dict(zip(plan.seq_ids.tolist(), result.samples, strict=True))
    fork_ids = plan.fork_seq_ids.tolist()
    if fork_ids:
        bounds = plan.cu_forks.tolist()
        for place, tokens in enumerate(result.samples):
            forks = fork_ids[bounds[place] : bounds[place + 1]]
            samples.update({seq_id: [token] for seq_id, token in zip(forks, tokens[1:], strict=False)})
    return samples


def _ending(output: RequestOutput) -> str:
    """What a request counts as: an error or an abort of any choice decides."""
    reasons = [completion.finish_reason for completion in output.outputs]
    return next((reason for reason in ("error", "abort") if reason in reasons), reasons[0] or "")


def _drafts_by_sequence(plan: StepPlan) -> dict[int, list[int]]:
    """The drafts that the step judges, of every sequence that has some."""
    ends, tokens = plan.cu_seqlens_q[1:].tolist(), plan.token_ids.tolist()
    rows = zip(plan.seq_ids.tolist(), ends, plan.num_drafts.tolist(), strict=True)
    return {seq_id: tokens[end - num : end] for seq_id, end, num in rows if num}


def _draft_owners(plan: StepPlan) -> list[int]:
    """The sequence that each row of a step's drafts belongs to (`StepResult.draft_ids`)."""
    fork_ids, bounds = plan.fork_seq_ids.tolist(), plan.cu_forks.tolist()
    owners: list[int] = []
    for place, (seq_id, samples) in enumerate(zip(plan.seq_ids.tolist(), plan.samples.tolist(), strict=True)):
        if samples:
            owners += [seq_id, *fork_ids[bounds[place] : bounds[place + 1]]]
    return owners
