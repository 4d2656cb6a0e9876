"""What a step's exchanges between ranks took, and what of it somebody waited for, from a trace."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepinfer.profile.busy_time import BusyTime
from deepinfer.profile.span import Span


@dataclass(frozen=True, slots=True)
class ExchangeShare:
    """Of the median step of one rank; of both halves together, if it was computed in halves.

    Attributes:
        flight_us: microseconds from the beginning of each exchange until all had come.
        waited_us: microseconds that the rank waited for that, with nothing else to compute.
    """

    flight_us: float
    waited_us: float

    @classmethod
    def of(cls, spans: Sequence[Span], steps: Sequence[Span]) -> ExchangeShare | None:
        """Of spans and steps of one rank; None where nothing was exchanged."""
        flights = [BusyTime([s for s in spans if s.lane == lane]) for lane in ("exchange 1", "exchange 2")]
        waits = BusyTime([s for s in spans if s.lane == "halves" and s.name.startswith("wait")])
        flight_us = statistics.median(sum(lane.us(step) for lane in flights) for step in steps)
        if not flight_us:
            return None
        return cls(flight_us, statistics.median(waits.us(step) for step in steps))

    @property
    def hidden_share(self) -> float:
        """Share of the exchanges' time in which the rank computed."""
        return max(0.0, 1 - self.waited_us / self.flight_us)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {"flight_us": self.flight_us, "waited_us": self.waited_us, "hidden_share": self.hidden_share}
