"""When the parts of a step began and ended."""

from __future__ import annotations

from deepinfer.core.device_clock import DeviceClock, Mark
from deepinfer.core.step_ms import StepMs


class StepMarks:
    """Notes of one step, on a clock that may be missing: then nobody wants to know, and nothing is noted."""

    def __init__(self, clock: DeviceClock | None) -> None:
        self._clock = clock
        self._marks: list[Mark] = []

    def note(self) -> None:
        """In this order: forward pass begins, ends; sampling begins, ends; drafting ends, where there are drafts."""
        if self._clock is not None:
            self._marks.append(self._clock.mark())

    def ms(self) -> StepMs | None:
        """What the parts took; waits for the last."""
        if self._clock is None:
            return None
        clock, (begin, forwarded, sampling, sampled, *drafted) = self._clock, self._marks
        draft = clock.ms(sampled, drafted[0]) if drafted else 0.0
        return StepMs(clock.ms(begin, forwarded), clock.ms(sampling, sampled), draft)
