"""How an engine fared in its last seconds of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecentLoad:
    """Of the last one to two seconds inside steps, or of all steps so far if they took less. What callers do between
    steps counts as the device's time only.

    Attributes:
        num_steps: steps booked in it.
        tokens_per_second: new tokens a second inside steps; None before the first step.
        host_gap_ms: milliseconds a step that the device waited for the host; None before the first step.
        device_idle_share: share of the device's time that these waits are; None before the first step.
    """

    num_steps: int
    tokens_per_second: float | None
    host_gap_ms: float | None
    device_idle_share: float | None

    @classmethod
    def total(cls, loads: Sequence[RecentLoad]) -> RecentLoad:
        """Of several engines that work side by side: steps and tokens add up, waits are the mean over steps."""
        active = [load for load in loads if load.num_steps]
        if not active:
            return cls(0, None, None, None)
        num_steps = sum(load.num_steps for load in active)

        def mean(name: str) -> float:
            return sum(load.num_steps * (getattr(load, name) or 0.0) for load in active) / num_steps

        tokens = sum(load.tokens_per_second or 0.0 for load in active)
        return cls(num_steps, tokens, mean("host_gap_ms"), mean("device_idle_share"))
