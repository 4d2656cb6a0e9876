"""Ends decode steps on the device: sampling, what counts, the draft pass, and the way of the results to the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from deepinfer.core.step_plan import StepPlan
from deepinfer.core.sync_guard import forbid_device_sync
from deepinfer.sampling.cuda_sampler import CudaSampler
from deepinfer.sampling.draw_kinds import DrawKinds
from deepinfer.sampling.step_rules import IS_LIVE, RULE_WIDTH, StepRules
from deepinfer.sampling.step_sampler import StepSampler
from deepinfer.worker.decode_step import DecodeStep
from deepinfer.worker.outcome_columns import OutcomeColumns
from deepinfer.worker.static_executor import StaticExecutor
from deepinfer.worker.step_drafter import StepDrafter


@dataclass(slots=True)
class ChosenTokens:
    """A step whose tokens have been launched.

    Attributes:
        step: its forward pass.
        kinds: what its rows ask for.
        is_live: bool [S] which sequences get tokens.
        has_drafts: whether a draft pass was launched behind it.
    """

    step: DecodeStep
    kinds: DrawKinds
    is_live: np.ndarray
    has_drafts: bool = False


@dataclass(frozen=True, slots=True)
class SampledStep:
    """What a decode step gave, on the host.

    Attributes:
        tokens: new tokens of each sequence of the plan.
        failed: places of sequences that ought to have got one and did not, as their logits are not finite.
        draft_ids: int32 [S, G], -1 for none; None when no draft pass ran.
        confidences: float32 [S, G].
    """

    tokens: list[list[int]]
    failed: list[int]
    draft_ids: np.ndarray | None
    confidences: np.ndarray | None


class StaticSampler:
    """Takes steps whose tokens nothing but the logits decides; what the host makes of others is brought to the device.

    A step is `choose`, `draft` if it makes drafts, `send`, and, once the device is through, `read`; or it is `store`
    alone. One step at a time: its results are read, or given up, before the next one comes.

    Args:
        executor: runs forward passes; its decoder's next one goes on from the outcome.
        sampler: knows every sequence's parameters and keys.
        drafter: runs draft passes; None with drafts off.
    """

    def __init__(self, executor: StaticExecutor, sampler: CudaSampler, drafter: StepDrafter | None) -> None:
        self._executor = executor
        self._decoder = executor.decoder
        self._sampler = sampler
        self._drafter = drafter
        self._chooser = StepSampler(sampler.num_ids, sampler.pool)
        self._outcome = outcome = self._decoder.outcome
        device, max_num_seqs = outcome.tokens.device, self._decoder.sizes.max_num_seqs
        self._rules = StepRules.allocate(max_num_seqs, device)
        self._given = torch.zeros((max_num_seqs, RULE_WIDTH), dtype=torch.int64, pin_memory=device.type == "cuda")
        self._columns = OutcomeColumns(outcome)

    @forbid_device_sync()
    def choose(self, plan: StepPlan) -> ChosenTokens | None:
        """Launch sampling and acceptance of a step behind its forward pass.

        Args:
            plan: the step as it is known now, exact or settled. Sequences that were released since get nothing.

        Returns:
            None for a step with a row that is not plain, or whose forward pass did not run from static tensors.
        """
        step, num_seqs = self._executor.step, len(plan.seq_ids)
        if step is None:
            return None
        bucket = len(step.rows.num_rows)  # that of the rows: else there would be a graph for every pair of numbers
        given = self._given[:bucket].numpy()
        is_plain, kinds = self._sampler.fill_rules(plan.seq_ids.tolist(), plan.output_indices, given)
        if not is_plain:
            return None
        self._rules.values[:bucket].copy_(self._given[:bucket], non_blocking=True)

        def choose() -> None:
            logits, rules = self._decoder.logits(step.hidden), self._rules.first(bucket)
            self._chooser.choose(logits, step.rows, rules, kinds, self._outcome)

        self._decoder.calls.run(("sample", len(step.hidden), kinds), choose)
        return ChosenTokens(step, kinds, given[:num_seqs, IS_LIVE] > 0)

    def assume(self, token_ids: list[int]) -> ChosenTokens:
        """Greedy tokens for the sequences of the newest forward pass, as if sampled: to time what follows them."""
        step = self._executor.step
        assert step is not None, "the forward pass ran from static tensors"
        self.store([[token_id] for token_id in token_ids], None, None)
        return ChosenTokens(step, DrawKinds(draws=False, filters=False), np.ones(len(token_ids), dtype=bool))

    @forbid_device_sync()
    def draft(self, chosen: ChosenTokens) -> bool:
        """Launch the draft pass behind chosen tokens; False with drafts off."""
        drafter, step, kinds = self._drafter, chosen.step, chosen.kinds
        if drafter is None:
            return False
        bucket = step.num_seqs

        def draft() -> None:
            rows = step.rows.narrowed(0, bucket)  # so that one graph serves all numbers of rows
            drafter.follow(rows, self._rules.first(bucket), kinds, self._outcome)

        self._decoder.calls.run(("draft", bucket, kinds), draft)
        if self._sampler.pool is not None:
            self._sampler.pool.note_pass()
        chosen.has_drafts = True
        return True

    @forbid_device_sync()
    def send(self, chosen: ChosenTokens) -> None:
        """Launch the transfer of the results to the host."""
        self._columns.send(len(chosen.is_live))

    def read(self, chosen: ChosenTokens) -> SampledStep:
        """The results, once the device is through; no torch."""
        tokens, draft_ids, confidences = self._columns.read(len(chosen.is_live))
        failed = [s for s, live in enumerate(chosen.is_live.tolist()) if live and not tokens[s]]
        drafts = (draft_ids, confidences) if chosen.has_drafts else (None, None)
        return SampledStep(tokens, failed, *drafts)

    def store(self, tokens: list[list[int]], draft_ids: np.ndarray | None, confidences: np.ndarray | None) -> None:
        """Launch the way of what the host has made of a step to the device.

        Args:
            tokens: new ones of each sequence.
            draft_ids: int32 [S, G], -1 for none; None without a draft pass.
            confidences: float32 [S, G] of the drafts.
        """
        self._columns.store(tokens, draft_ids, confidences)
