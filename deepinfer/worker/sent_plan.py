"""A step's plan on its way from the rank that schedules to those that compute with it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from deepinfer.core.step_plan import StepPlan
from deepinfer.worker.forward_plan import ForwardPlan


@dataclass(frozen=True, slots=True)
class SentPlan(ForwardPlan):
    """The plan of a forward pass with what has to be done around it.

    Attributes:
        slot_copies, block_copies: before it, see `StepPlan`.
        wanted_rows: int64 [L] rows whose hidden states are wanted, ascending.
    """

    slot_copies: np.ndarray
    block_copies: np.ndarray
    wanted_rows: np.ndarray

    @classmethod
    def of(cls, plan: StepPlan, wanted_rows: np.ndarray) -> SentPlan:
        """A copy of a plan's fields."""
        own = {field.name: getattr(plan, field.name) for field in fields(cls) if field.name != "wanted_rows"}
        return cls(**own, wanted_rows=wanted_rows)
