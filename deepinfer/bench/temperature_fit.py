"""Fits the temperature of the confidence head, one for each draft position."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from deepinfer.engine.draft_calibration import DraftCalibration

_LOWEST, _HIGHEST = math.log(0.05), math.log(20.0)
_STEPS: Final = 60
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_ENOUGH: Final = 2.0 / 3.0  # of the error before: a third less


@dataclass(frozen=True, slots=True)
class PositionFit:
    """Outcome for one draft position.

    Attributes:
        temperature: the one to use; 1 where no other is better on the held-out drafts.
        num_fitted, num_held_out: judged drafts.
        error_before, error_after: expected calibration error of the held-out drafts at temperature 1 and at
            `temperature`; None without held-out drafts.
    """

    temperature: float
    num_fitted: int
    num_held_out: int
    error_before: float | None
    error_after: float | None


@dataclass(frozen=True, slots=True)
class TemperatureFit:
    """Outcome for all positions.

    Attributes:
        positions: one a draft.
        error_before, error_after: expected calibration error of all held-out drafts together.
    """

    positions: tuple[PositionFit, ...]
    error_before: float | None
    error_after: float | None

    @property
    def temperatures(self) -> tuple[float, ...]:
        """One a draft position."""
        return tuple(position.temperature for position in self.positions)

    @property
    def is_enough(self) -> bool:
        """Whether the held-out error fell by at least a third."""
        return (
            self.error_before is not None
            and self.error_after is not None
            and self.error_after <= _ENOUGH * self.error_before
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON that `LLM(speculative=path)` takes, with the figures beside it."""
        return {
            "num_drafts": len(self.positions),
            "temperatures": list(self.temperatures),
            "held_out_error": {"before": self.error_before, "after": self.error_after},
            "positions": [
                {
                    "fitted": item.num_fitted,
                    "held_out": item.num_held_out,
                    "error_before": item.error_before,
                    "error_after": item.error_after,
                }
                for item in self.positions
            ],
        }


def fit_temperatures(fitted: DraftCalibration, held_out: DraftCalibration) -> TemperatureFit:
    """Temperatures that make the acceptance of `fitted` likeliest, as far as they help on `held_out`.

    Both were collected at temperature 1. The likelihood of a position is maximised by golden-section search over the
    logarithm of its temperature, 0.05 to 20 (it has one maximum: the log-likelihood is concave in 1 / temperature).
    """
    positions = tuple(_fit(fitted.position(k), held_out.position(k)) for k in range(fitted.num_drafts))
    temperatures = tuple(position.temperature for position in positions)
    after = held_out.at_temperatures(temperatures)
    return TemperatureFit(positions, held_out.expected_error(), after.expected_error())


def _fit(fitted: DraftCalibration, held_out: DraftCalibration) -> PositionFit:
    before = held_out.expected_error()
    temperature = _likeliest(fitted) if fitted.num_judged and before is not None else 1.0
    after = held_out.at_temperatures((temperature,)).expected_error()
    if before is None or after is None or after >= before:
        temperature, after = 1.0, before
    return PositionFit(temperature, fitted.num_judged, held_out.num_judged, before, after)


def _likeliest(fitted: DraftCalibration) -> float:
    def loss(log_temperature: float) -> float:
        return fitted.at_temperatures((math.exp(log_temperature),)).negative_log_likelihood()

    low, high = _LOWEST, _HIGHEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    left_loss, right_loss = loss(left), loss(right)
    for _ in range(_STEPS):
        if left_loss <= right_loss:
            high, right, right_loss = right, left, left_loss
            left = high - _GOLDEN * (high - low)
            left_loss = loss(left)
        else:
            low, left, left_loss = left, right, right_loss
            right = low + _GOLDEN * (high - low)
            right_loss = loss(right)
    return round(math.exp((low + high) / 2), 4)
