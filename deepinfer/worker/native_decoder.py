"""The end of decode steps in one native call each: logits, the new tokens, and the drafts behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer._C import StepPlan as NativePlan
from deepinfer._C import cpu
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.models.deepseek_v41.native_model import NativeModel
from deepinfer.sampling.native_sampler import NativeSampler


@dataclass(frozen=True, slots=True)
class DecodedStep:
    """What one call gives.

    Attributes:
        tokens: new tokens of each sequence of the plan; none of one that was released meanwhile.
        draft_ids: int32 [S, G] the next drafts, -1 for none; None when the plan makes none.
        draft_scores: float32 [S, G] their confidence scores before temperature and sigmoid.
        sample_ms, draft_ms: what choosing tokens and drafting took.
    """

    tokens: list[list[int]]
    draft_ids: np.ndarray | None
    draft_scores: np.ndarray | None
    sample_ms: float
    draft_ms: float


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

    def takes(self, plan: StepPlan) -> bool:
        """Whether `sample` is made for this step. May be asked by another thread than the one that runs steps."""
        return isinstance(plan, NativePlan) and not self._probe.is_attached and self._calls.takes(plan)

    def sample(self, plan: StepPlan, num_drafts: int) -> DecodedStep | None:
        """Tokens of a step whose forward pass has just run, and num_drafts new drafts of each sequence behind it if the
        plan makes drafts.

        None when a row has no token to be drawn: tokens are then to be chosen part by part.
        """
        assert isinstance(plan, NativePlan), "ask `takes` first"
        done = self._calls.sample(plan, num_drafts, self._max_positions)
        return None if done is None else DecodedStep(*done[:3], *done[3])
