"""A step between its plan and its outputs."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer._C import StepPlan
from deepinfer.core.launched_step import LaunchedStep


@dataclass(slots=True, eq=False)
class StepInFlight:
    """Changed by the engine only.

    Attributes:
        plan: the step; a linked one until its lengths are known.
        launched: both phases on the device, None before the second is.
    """

    plan: StepPlan
    launched: LaunchedStep | None = None
