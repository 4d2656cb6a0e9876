"""A measured step beside what the model of costs says of it."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.bench.planner.measured_step import MeasuredStep


@dataclass(frozen=True, slots=True)
class StepCheck:
    """
    Attributes:
        step: as measured.
        model_ms: by the model, with factors fitted to all steps without drafts.
        unseen_ms: by the model, with factors fitted to the other steps without drafts.
    """

    step: MeasuredStep
    model_ms: float
    unseen_ms: float

    @property
    def error(self) -> float:
        """Of the model, relative; negative: the model is faster."""
        return self.model_ms / self.step.ms - 1

    @property
    def unseen_error(self) -> float:
        """Likewise where the factors do not know this step."""
        return self.unseen_ms / self.step.ms - 1
