"""Median and spread of repeated measurements."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Any unit. The middle half of the measurements lies between `low` and `high`.

    Attributes:
        median: the middle one.
        low, high: first and third quartile.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one or more measurements."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def to_dict(self, unit: str, scale: float = 1.0) -> dict[str, float]:
        """JSON-safe: "median_<unit>", "low_<unit>" and "high_<unit>", each times `scale`."""
        return {
            f"median_{unit}": self.median * scale,
            f"low_{unit}": self.low * scale,
            f"high_{unit}": self.high * scale,
        }

    def shown(self, scale: float = 1.0, digits: int = 2) -> str:
        """ "median (low .. high)", each times `scale`."""
        median, low, high = (f"{value * scale:.{digits}f}" for value in (self.median, self.low, self.high))
        return f"{median} ({low} .. {high})"
