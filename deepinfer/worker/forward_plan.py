"""The part of a step plan that a forward pass reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """What an executor reads of a `StepPlan`; fields as there."""

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
