"""A step's plan on its way from the rank that schedules to those that compute with it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from deepinfer.core.step_plan import StepPlan


@dataclass(frozen=True, slots=True)
class SentPlan:
    """What a forward pass reads of a plan, see `StepPlan`, and the rows whose hidden states are wanted.

    Attributes:
        wanted_rows: int64 [L], ascending.
    """

    kind: str
    previous_step_id: int
    seq_ids: np.ndarray
    cu_seqlens_q: np.ndarray
    context_lens: np.ndarray
    window_starts: np.ndarray
    entry_starts: np.ndarray
    consumer_starts: np.ndarray
    state_slots: np.ndarray
    block_ids: np.ndarray
    cu_blocks: np.ndarray
    token_ids: np.ndarray
    positions: np.ndarray
    lookback_ids: np.ndarray
    remap: np.ndarray
    draft_caps: np.ndarray
    max_lens: np.ndarray
    num_draft_rows: int
    rate_factors: np.ndarray
    keeps_draft_context: bool
    slot_copies: np.ndarray
    block_copies: np.ndarray
    wanted_rows: np.ndarray

    @classmethod
    def of(cls, plan: StepPlan, wanted_rows: np.ndarray) -> SentPlan:
        """A copy of a plan's fields."""
        own = {field.name: getattr(plan, field.name) for field in fields(cls) if field.name != "wanted_rows"}
        return cls(**own, wanted_rows=wanted_rows)
