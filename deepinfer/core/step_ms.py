"""What the parts of a step took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepMs:
    """Milliseconds. Filled by the model runner where the engine corrects a measured cost curve.

    Attributes:
        forward: target model.
        sample: output matrix, sampling, verification.
        draft: draft pass with its sequential head; 0 when none ran.
    """

    forward: float
    sample: float
    draft: float
