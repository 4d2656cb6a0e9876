"""Measures how busy the device is and how fast tokens come, from times that are known anyway."""

from __future__ import annotations

from typing import Final, NamedTuple

from deepinfer.core.launched_step import LaunchedStep
from deepinfer.engine.recent_load import RecentLoad

_STRETCH: Final = 1.0  # seconds inside steps between two marks


class _Mark(NamedTuple):
    """Totals at one moment.

    Attributes:
        seconds: inside steps.
        num_tokens: generated.
        num_steps: booked.
        busy, idle: nanoseconds of the device.
    """

    seconds: float
    num_tokens: int
    num_steps: int
    busy: int
    idle: int


class LoadMeter:
    """Adds up what each booked step says about the device: a few additions a step, and no wait.

    The device's time has no gap from the first step behind `rest` on: it works on a step, or waits for the next one.
    """

    def __init__(self) -> None:
        self._num_steps = 0
        self._busy = 0
        self._idle = 0
        self._end = 0  # of the newest booked step; 0: the device was idle for want of work
        self._older = self._newer = _Mark(0.0, 0, 0, 0, 0)

    @property
    def device_seconds(self) -> float:
        """Time in which the device worked on booked steps."""
        return self._busy / 1e9

    @property
    def device_idle_seconds(self) -> float:
        """Time in which it waited although there was work."""
        return self._idle / 1e9

    def rest(self) -> None:
        """There is nothing to do: what the device waits from now on is nobody's fault."""
        self._end = 0

    def book(self, step: LaunchedStep) -> None:
        """Take a step that was waited for; in the order of the steps."""
        (begin, forwarded), (sampling, end) = step.forward.span, step.sample.span
        self._num_steps += 1
        self._busy += forwarded - begin + end - sampling
        self._idle += max(0, sampling - forwarded) + (max(0, begin - self._end) if self._end else 0)
        self._end = end

    def is_due(self, seconds: float) -> bool:
        """Whether `mark` is to be called.

        Args:
            seconds: inside steps, over all.
        """
        return seconds - self._newer.seconds >= _STRETCH

    def mark(self, seconds: float, num_tokens: int) -> None:
        """Begin a new stretch.

        Args:
            seconds: inside steps, over all.
            num_tokens: generated, over all.
        """
        self._older, self._newer = self._newer, self._now(seconds, num_tokens)

    def recent(self, seconds: float, num_tokens: int) -> RecentLoad:
        """Since the beginning of the last full stretch; arguments as in `mark`."""
        now, then = self._now(seconds, num_tokens), self._older
        num_steps, busy, idle = now.num_steps - then.num_steps, now.busy - then.busy, now.idle - then.idle
        if not num_steps:
            return RecentLoad(0, None, None, None)
        return RecentLoad(
            num_steps=num_steps,
            tokens_per_second=(now.num_tokens - then.num_tokens) / max(now.seconds - then.seconds, 1e-9),
            host_gap_ms=idle / num_steps / 1e6,
            device_idle_share=idle / max(busy + idle, 1),
        )

    def _now(self, seconds: float, num_tokens: int) -> _Mark:
        return _Mark(seconds, num_tokens, self._num_steps, self._busy, self._idle)
