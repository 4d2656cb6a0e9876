"""Runs step plans in two phases: the forward pass, then prompt scores, sampling and drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from deepinfer._C import StepPlan as NativePlan
from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.device_clock import DeviceClock
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_executor import StepExecutor
from deepinfer.core.step_ms import StepMs
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import PromptLogprobs, StepResult
from deepinfer.errors import DeepInferError, RequestError
from deepinfer.sampling.prompt_logprobs import join_prompt_logprobs, prompt_logprobs, rows_per_block
from deepinfer.sampling.sampler import non_finite_logits
from deepinfer.worker.cache_copies import copy_cache_units
from deepinfer.worker.draft_proposer import DraftProposer
from deepinfer.worker.native_decoder import NativeDecoder
from deepinfer.worker.peer_steps import PeerSteps
from deepinfer.worker.step_marks import StepMarks
from deepinfer.worker.token_chooser import TokenChooser, first_sample_rows

if TYPE_CHECKING:  # it loads kernels
    from deepinfer.worker.static_sampler import StaticSampler


@dataclass(frozen=True, slots=True)
class _Forwarded:
    """What the forward pass leaves to the second phase beside hidden states.

    Attributes:
        step_id: of its plan.
        scored: rows int64 that judge prompt tokens, by place in the plan.
        marks: when it began and ended.
    """

    step_id: int
    scored: dict[int, np.ndarray]
    marks: StepMarks


@dataclass(frozen=True, slots=True)
class PendingResult:
    """A step's outcome that is on its way from the device.

    Attributes:
        fetch: makes it, once the device is through.
    """

    fetch: Callable[[], StepResult]


class ModelRunner:
    """Owns the model, the caches and the sampler; keeps no scheduling state.

    A step is `forward` and then `sample`, with nothing but `add` and `release` in between. What the newest whole step
    gave is kept for a linked plan, which goes on from it.

    Args:
        executor: runs the target model.
        caches: allocated cache tensors.
        chooser: turns hidden states into tokens; knows the live sequences.
        proposer: makes drafts behind a step; None with drafts off.
        num_valid_ids: ids the tokenizer has.
        clock: times the parts of every step; None: nobody wants to know.
        decoder: ends decode steps in one native call where that is possible; None where it never is.
        static: ends decode steps on a GPU where that is possible, and takes what became of others; None without.
        peers: the ranks whose steps this one's meet; None for a rank by itself.
    """

    def __init__(
        self,
        executor: StepExecutor,
        caches: CacheTensors,
        chooser: TokenChooser,
        proposer: DraftProposer | None,
        num_valid_ids: int,
        clock: DeviceClock | None = None,
        decoder: NativeDecoder | None = None,
        static: StaticSampler | None = None,
        peers: PeerSteps | None = None,
    ) -> None:
        self._executor = executor
        self._caches = caches
        self._chooser = chooser
        self._proposer = proposer
        self._num_valid_ids = num_valid_ids
        self._clock = clock
        self._decoder = decoder
        self._static = static
        self._peers = peers
        self._forwarded: _Forwarded | None = None
        self._outcome: tuple[StepPlan, StepResult] | None = None

    def add(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it."""
        self._chooser.add(request)

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences; unknown ids are ignored."""
        for seq_id in seq_ids:
            self._chooser.release(seq_id)

    def forwards_natively(self, plan: StepPlan) -> bool:
        """Whether `forward` leaves torch alone: it may then run on any thread, beside the caller's own code."""
        return not self._executor.calls_torch and not len(plan.slot_copies) and not len(plan.block_copies)

    def samples_natively(self, plan: StepPlan) -> bool:
        """The same for `sample`."""
        return self._decoder is not None and self._decoder.takes(plan)

    def forward(self, plan: StepPlan) -> None:
        """Phase 1: one forward pass over the plan, exact or linked."""
        self._forwarded = None
        plan = self._exact(plan)
        scored = self._scored_rows(plan)
        wanted_rows = _sampled_rows(plan)
        if scored:
            wanted_rows = np.unique(np.concatenate([wanted_rows, *scored.values()]))
        marks = StepMarks(self._clock)
        marks.note()
        if self._peers is not None:
            self._peers.lead(plan, wanted_rows)
        copy_cache_units(self._caches, plan.slot_copies, plan.block_copies)
        self._executor.forward(plan, wanted_rows)
        marks.note()
        self._forwarded = _Forwarded(plan.step_id, scored, marks)

    def sample(self, plan: StepPlan, natively: bool = False) -> StepResult | PendingResult:
        """Phase 2: prompt scores, new tokens of the plan's sequences and drafts behind them.

        Args:
            plan: exact, whose forward pass has just run. Sequences that were released since get nothing.
            natively: what `samples_natively` has said.
        """
        forwarded = self._forwarded
        assert forwarded is not None and forwarded.step_id == plan.step_id, f"no forward pass of step {plan.step_id}"
        forwarded.marks.note()
        result = self._sample_natively(plan, forwarded) if natively else self._sample_statically(plan, forwarded)
        if result is None:
            result = self._choose(plan, forwarded)
        if self._peers is not None:
            self._peers.end_step()
        self._outcome = (plan, result) if isinstance(result, StepResult) else None
        return result

    def take_part(self) -> None:
        """Phase 1 of a step that only other ranks have rows of: its collectives."""
        assert self._peers is not None, "a rank by itself has no part in steps of others"
        self._peers.take_part()

    def skip_sample(self) -> None:
        """Phase 2 of a step that gives nobody here a token: its collectives."""
        assert self._peers is not None, "a rank by itself has no part in steps of others"
        self._peers.end_step()

    def _exact(self, plan: StepPlan) -> StepPlan:
        """The plan with the lengths and tokens that came of the step before it; the static sampler has these on the
        device, where its decoder finds them.
        """
        if not isinstance(plan, NativePlan) or plan.previous_step_id < 0 or self._static is not None:
            return plan
        previous, result = self._outcome or (None, None)
        if not isinstance(previous, NativePlan) or result is None or previous.step_id != plan.previous_step_id:
            raise DeepInferError(f"step {plan.step_id} goes on from step {plan.previous_step_id}, which has no outcome")
        return plan.resolve(previous, *result.flat_tokens(), result.draft_ids, result.confidences)

    def _choose(self, plan: StepPlan, forwarded: _Forwarded) -> StepResult:
        errors: dict[int, Exception] = {}
        scores: list[PromptLogprobs | None] = [None] * len(plan.seq_ids)
        for s, rows in forwarded.scored.items():
            scores[s] = self._score(plan, s, rows, errors)
        samples = self._chooser.choose(plan, errors)
        forwarded.marks.note()
        draft_ids = confidences = None
        if self._proposer is not None and plan.make_drafts:
            drafts = self._proposer.propose(plan, samples, errors)
            draft_ids, confidences = drafts.draft_ids, drafts.confidences
            forwarded.marks.note()
        if self._static is not None and plan.kind == "decode":
            self._static.store([[token.token_id for token in new] for new in samples], draft_ids, confidences)
        ms = forwarded.marks.ms()
        return StepResult(plan.step_id, samples, scores, errors, draft_ids, confidences, ms)

    def _sample_natively(self, plan: StepPlan, forwarded: _Forwarded) -> StepResult | None:
        """None when some row has no token: choosing part by part tells whose."""
        assert self._decoder is not None, "ask `samples_natively` first"
        step = self._decoder.sample(plan, 0 if self._proposer is None else self._proposer.num_drafts)
        if step is None:
            return None
        samples = self._chooser.take(plan, step.tokens)
        draft_ids = confidences = None
        if self._proposer is not None and step.draft_ids is not None and step.draft_scores is not None:
            drafts = self._proposer.take(step.draft_ids, step.draft_scores)
            draft_ids, confidences = drafts.draft_ids, drafts.confidences
        forwarded.marks.note()
        ms = forwarded.marks.ms()
        if ms is not None:
            ms = StepMs(ms.forward, step.sample_ms, step.draft_ms)
        return StepResult(plan.step_id, samples, [None] * len(samples), {}, draft_ids, confidences, ms)

    def _sample_statically(self, plan: StepPlan, forwarded: _Forwarded) -> PendingResult | None:
        """Hand everything to the device; None for a step with a row that the host has to look at."""
        static, marks = self._static, forwarded.marks
        chosen = None if static is None else static.choose(plan)
        if static is None or chosen is None:
            return None
        marks.note()
        if plan.make_drafts and static.draft(chosen):
            if self._peers is not None:
                self._peers.note_drafts()
            marks.note()
        static.send(chosen)

        def fetch() -> StepResult:
            step = static.read(chosen)
            samples = self._chooser.take(plan, step.tokens)
            errors: dict[int, Exception] = {int(plan.seq_ids[s]): non_finite_logits() for s in step.failed}
            scores: list[PromptLogprobs | None] = [None] * len(samples)
            return StepResult(plan.step_id, samples, scores, errors, step.draft_ids, step.confidences, marks.ms())

        return PendingResult(fetch)

    def _scored_rows(self, plan: StepPlan) -> dict[int, np.ndarray]:
        """Rows int64 by place in the plan, for the sequences of which a step judges wanted prompt tokens (the row at p
        judges the token at p + 1). Decode steps have no rows of prompts.
        """
        scored: dict[int, np.ndarray] = {}
        if plan.kind == "decode":
            return scored
        bounds, positions = plan.cu_seqlens_q.tolist(), plan.context_lens.tolist()
        for s, seq_id in enumerate(plan.seq_ids.tolist()):
            request = self._chooser.request_of(seq_id)
            if request.score_start is None:
                continue
            first_row, end_row, position = bounds[s], bounds[s + 1], positions[s]
            begin = max(first_row, first_row + request.score_start - 1 - position)
            end = min(end_row, first_row + len(request.prompt_token_ids) - 1 - position)
            if begin < end:
                scored[s] = np.arange(begin, end, dtype=np.int64)
        return scored

    def _score(
        self,
        plan: StepPlan,
        s: int,
        rows: np.ndarray,
        errors: dict[int, Exception],
    ) -> PromptLogprobs | None:
        """Scores of sequence s's wanted prompt tokens, in blocks so that logits never exist for all of them at once."""
        request = self._chooser.request_of(int(plan.seq_ids[s]))
        start = int(plan.positions[rows[0]]) + 1
        targets = torch.from_numpy(request.prompt_token_ids[start : start + len(rows)].astype(np.int64))
        block = rows_per_block(self._executor.vocab_size)

        def score(begin: int) -> PromptLogprobs:
            logits = torch.as_tensor(self._executor.logits(rows[begin : begin + block]))
            return prompt_logprobs(
                logits,
                targets[begin : begin + block].to(logits.device),
                start=start + begin,
                num_top=request.score_top_k,
                num_valid_ids=self._num_valid_ids,
            )

        parts = (score(begin) for begin in range(0, len(rows), block))
        try:
            return join_prompt_logprobs(parts, len(rows))
        except RequestError as error:
            errors[request.seq_id] = error
            return None


def _sampled_rows(plan: StepPlan) -> np.ndarray:
    """Rows int64 [n] that give tokens: of a sequence in a prefill its last one, if that samples; in a decode step all,
    the newest token's and those of the drafts.
    """
    if plan.kind == "decode":  # all of them
        return np.arange(len(plan.token_ids))
    sampled = np.flatnonzero(plan.samples)
    return first_sample_rows(plan)[sampled]
