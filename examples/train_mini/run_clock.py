"""How far a run is: by steps, or by time once everything is compiled."""

from __future__ import annotations

import time

_FIRST_TIMED = 3  # steps before are set-up


class RunClock:
    """Counts steps.

    Args:
        seconds: of the run, set-up included.
        steps: of the run; 0: as many as fit into the time.
    """

    def __init__(self, seconds: float, steps: int) -> None:
        self.step = 0
        self._seconds, self._steps = seconds, steps
        self._start = self._begin = time.monotonic()

    def advance(self) -> None:
        """A step is done."""
        self.step += 1
        if self.step == _FIRST_TIMED:
            self._begin = time.monotonic()

    def share(self) -> float:
        """Of the run that is over; 1 or more at its end."""
        if self._steps:
            return self.step / self._steps
        if self.step < _FIRST_TIMED:
            return 0.0
        span = max(self._seconds - (self._begin - self._start), 5.0)
        return (time.monotonic() - self._begin) / span

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start
