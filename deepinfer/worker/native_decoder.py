"""Decode steps in one native call each: all layers, the new tokens, and the drafts behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer._C import StepPlan as NativePlan
from deepinfer._C import cpu
from deepinfer.core.probe import Probe
from deepinfer.core.step_ms import StepMs
from deepinfer.core.step_plan import StepPlan
from deepinfer.models.deepseek_v41.native_model import NativeModel
from deepinfer.sampling.native_sampler import NativeSampler


@dataclass(frozen=True, slots=True)
class DecodedStep:
    """What one call gives.

    Attributes:
        tokens: new tokens of each sequence of the plan.
        draft_ids: int32 [S, G] the next drafts, -1 for none; None when the plan makes none.
        draft_scores: float32 [S, G] their confidence scores before temperature and sigmoid.
        ms: what the parts took.
    """

    tokens: list[list[int]]
    draft_ids: np.ndarray | None
    draft_scores: np.ndarray | None
    ms: StepMs


class NativeDecoder:
    """Takes the decode steps whose tokens nothing but the logits decides, and of which nobody wants more than tokens.

    Calls no torch operation. Drafts are judged by coupled acceptance.

    Args:
        model: native form of the model.
        sampler: knows every sequence's parameters and keys.
        context: threads and kernels.
        probe: research hooks; while one is attached, no step is taken.
        max_positions: no draft stands at or behind this position.
    """

    def __init__(
        self,
        model: NativeModel,
        sampler: NativeSampler,
        context: cpu.Context,
        probe: Probe,
        max_positions: int,
    ) -> None:
        self._model = model  # owns what the native object reads
        self._calls = cpu.Decoder(context, model.calls, sampler.rows)
        self._probe = probe
        self._max_positions = max_positions

    def decode(self, plan: StepPlan, num_drafts: int) -> DecodedStep | None:
        """Run a step, and num_drafts new drafts of each sequence behind it if the plan makes drafts.

        None for a step that is not of this kind: it is then to be run part by part, from its beginning.
        """
        if self._probe.is_attached or not isinstance(plan, NativePlan):
            return None
        done = self._calls.decode(plan, num_drafts, self._max_positions)
        if done is None:
            return None
        tokens, draft_ids, draft_scores, ms = done
        return DecodedStep(tokens, draft_ids, draft_scores, StepMs(*ms))
