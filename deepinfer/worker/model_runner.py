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
    """

    def __init__(
        self,
        executor: StepExecutor,
        caches: CacheTensors,
        chooser: TokenChooser,
        proposer: DraftProposer | None,
        num_valid_ids: int,
        clock: StepClock | None = None,
    ) -> None:
        self._executor = executor
        self._caches = caches
        self._chooser = chooser
        self._proposer = proposer
        self._num_valid_ids = num_valid_ids
        self._clock = clock

    def add(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it."""
        self._chooser.add(request)

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences; unknown ids are ignored."""
        for seq_id in seq_ids:
            self._chooser.release(seq_id)

    def execute(self, plan: StepPlan) -> StepResult:
        """One forward pass over the plan, then prompt scores, new tokens of its sequences and drafts behind them."""
        scored = [self._scored_rows(plan, s) for s in range(len(plan.seq_ids))]
        wanted_rows = np.unique(np.concatenate([_sampled_rows(plan), *scored]))
        self._start_clock()
        copy_cache_units(self._caches, plan.slot_copies, plan.block_copies)
        self._executor.forward(plan, wanted_rows)
        forward_ms = self._lap_ms()
        errors: dict[int, Exception] = {}
        scores = [self._score(plan, s, rows, errors) for s, rows in enumerate(scored)]
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

    def _scored_rows(self, plan: StepPlan, s: int) -> np.ndarray:
        """Rows of sequence s that judge a wanted prompt token (row at p judges the token at p + 1)."""
        request = self._chooser.request_of(int(plan.seq_ids[s]))
        first_row, end_row = int(plan.cu_seqlens_q[s]), int(plan.cu_seqlens_q[s + 1])
        if request.score_start is None:
            return np.empty(0, dtype=np.int64)
        position = int(plan.context_lens[s])
        begin = max(first_row, first_row + request.score_start - 1 - position)
        end = min(end_row, first_row + len(request.prompt_token_ids) - 1 - position)
        return np.arange(begin, max(begin, end), dtype=np.int64)

    def _score(
        self,
        plan: StepPlan,
        s: int,
        rows: np.ndarray,
        errors: dict[int, Exception],
    ) -> PromptLogprobs | None:
        """Scores of sequence s's wanted prompt tokens, in blocks so that logits never exist for all of them at once."""
        if not len(rows):
            return None
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
    counts = plan.num_drafts[sampled].astype(np.int64) + 1
    first = np.repeat(first_sample_rows(plan)[sampled], counts)
    return first + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
