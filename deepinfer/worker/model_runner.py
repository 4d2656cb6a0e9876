"""Runs one step plan: forward pass, prompt scoring, sampling."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.step_executor import StepExecutor
from deepinfer.core.step_ms import StepMs
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import PromptLogprobs, StepResult
from deepinfer.errors import RequestError
from deepinfer.sampling.prompt_logprobs import join_prompt_logprobs, prompt_logprobs, rows_per_block
from deepinfer.worker.cache_copies import copy_cache_units
from deepinfer.worker.draft_proposer import DraftProposer
from deepinfer.worker.native_decoder import NativeDecoder
from deepinfer.worker.step_clock import StepClock
from deepinfer.worker.token_chooser import TokenChooser, first_sample_rows


class ModelRunner:
    """Owns the model, the caches and the sampler; keeps no scheduling state.

    Args:
        executor: runs the target model.
        caches: allocated cache tensors.
        chooser: turns hidden states into tokens; knows the live sequences.
        proposer: makes drafts behind a step; None with drafts off.
        num_valid_ids: ids the tokenizer has.
        clock: times the parts of every step; None: nobody wants to know.
        decoder: runs whole decode steps where that is possible; None where it never is.
    """

    def __init__(
        self,
        executor: StepExecutor,
        caches: CacheTensors,
        chooser: TokenChooser,
        proposer: DraftProposer | None,
        num_valid_ids: int,
        clock: StepClock | None = None,
        decoder: NativeDecoder | None = None,
    ) -> None:
        self._executor = executor
        self._caches = caches
        self._chooser = chooser
        self._proposer = proposer
        self._num_valid_ids = num_valid_ids
        self._clock = clock
        self._decoder = decoder

    def add(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it."""
        self._chooser.add(request)

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences; unknown ids are ignored."""
        for seq_id in seq_ids:
            self._chooser.release(seq_id)

    def decode(self, plan: StepPlan) -> StepResult | None:
        """The same as `execute` without any torch operation; None for a plan with which that cannot be done."""
        num_drafts = 0 if self._proposer is None else self._proposer.num_drafts
        step = None if self._decoder is None else self._decoder.decode(plan, num_drafts)
        if step is None:
            return None
        samples = self._chooser.take(plan, step.tokens)
        draft_ids = confidences = None
        if self._proposer is not None and step.draft_ids is not None and step.draft_scores is not None:
            drafts = self._proposer.take(step.draft_ids, step.draft_scores)
            draft_ids, confidences = drafts.draft_ids, drafts.confidences
        ms = None if self._clock is None else step.ms
        return StepResult(plan.step_id, samples, [None] * len(samples), {}, draft_ids, confidences, ms)

    def execute(self, plan: StepPlan) -> StepResult:
        """One forward pass over the plan, then prompt scores, new tokens of its sequences and drafts behind them."""
        scored = self._scored_rows(plan)
        wanted_rows = _sampled_rows(plan)
        if scored:
            wanted_rows = np.unique(np.concatenate([wanted_rows, *scored.values()]))
        self._start_clock()
        copy_cache_units(self._caches, plan.slot_copies, plan.block_copies)
        self._executor.forward(plan, wanted_rows)
        forward_ms = self._lap_ms()
        errors: dict[int, Exception] = {}
        scores: list[PromptLogprobs | None] = [None] * len(plan.seq_ids)
        for s, rows in scored.items():
            scores[s] = self._score(plan, s, rows, errors)
        samples = self._chooser.choose(plan, errors)
        sample_ms = self._lap_ms()
        if self._proposer is None or not plan.make_drafts:
            return StepResult(plan.step_id, samples, scores, errors, ms=self._step_ms(forward_ms, sample_ms, 0.0))
        drafts = self._proposer.propose(plan, samples, errors)
        ms = self._step_ms(forward_ms, sample_ms, self._lap_ms())
        return StepResult(plan.step_id, samples, scores, errors, drafts.draft_ids, drafts.confidences, ms)

    def _start_clock(self) -> None:
        if self._clock is not None:
            self._clock.start()

    def _lap_ms(self) -> float:
        return self._clock.lap_ms() if self._clock is not None else 0.0

    def _step_ms(self, forward: float, sample: float, draft: float) -> StepMs | None:
        return StepMs(forward, sample, draft) if self._clock is not None else None

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
    """Rows int64 [n] that give tokens: of each sequence that samples, the first such row and those of its drafts."""
    sampled = np.flatnonzero(plan.samples)
    first = first_sample_rows(plan)[sampled]
    if len(plan.token_ids) == len(plan.seq_ids):  # no drafts
        return first
    counts = plan.num_drafts[sampled].astype(np.int64) + 1
    first = np.repeat(first, counts)
    return first + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
