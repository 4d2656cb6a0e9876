"""An axis of a plot: where values stand on it, and its ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_NUM_TICKS: Final = 6
_FEW_DECADES: Final = 2  # a logarithmic axis as short as that has ticks between powers of ten


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """From the first tick to the last.

    Attributes:
        ticks: ascending; round numbers.
        is_log: logarithmic; else linear from zero.
    """

    ticks: tuple[float, ...]
    is_log: bool

    @classmethod
    def linear(cls, values: Iterable[float]) -> PlotAxis:
        """From zero to the next tick above the largest value."""
        largest = max(values, default=0.0) or 1.0
        step = _tick_step(largest)
        return cls(tuple(number * step for number in range(math.ceil(largest / step - 1e-9) + 1)), is_log=False)

    @classmethod
    def log(cls, values: Iterable[float]) -> PlotAxis:
        """Between the ticks around all values, which are above zero."""
        found = list(values) or [1.0]
        low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)) + 1e-9)
        factors = (1, 2, 5) if high - low <= _FEW_DECADES else (1,)
        ticks = [factor * 10.0**power for power in range(low, high) for factor in factors] + [10.0**high]
        first = max(i for i, tick in enumerate(ticks) if tick <= min(found) * (1 + 1e-9))
        last = min(i for i, tick in enumerate(ticks) if tick >= max(found) * (1 - 1e-9) and i > first)
        return cls(tuple(ticks[first : last + 1]), is_log=True)

    def share(self, value: float) -> float:
        """0 at the first tick, 1 at the last."""
        first, last = self.ticks[0], self.ticks[-1]
        return math.log(value / first) / math.log(last / first) if self.is_log else value / last


def _tick_step(largest: float) -> float:
    """1, 2 or 5 times a power of ten."""
    raw = largest / _NUM_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
