"""Notes what the parts of a step compute and wait for, and what of them is on its way between ranks."""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

import torch

from deepinfer.core.device_clock import DeviceClock, Mark
from deepinfer.distributed.in_flight import InFlight

Activity = Literal["compute", "wait", "exchange"]


class LoggedSpan(NamedTuple):
    """One stretch of time.

    Attributes:
        activity: of the part, or of the links for it.
        name: of what was computed or exchanged.
        part: number of the part of its step.
        begin, end: nanoseconds of `time.perf_counter_ns`; on a GPU those at which the device got there.
    """

    activity: Activity
    name: str
    part: int
    begin: int
    end: int


class ExchangeLog:
    """Does nothing until it is started.

    Args:
        device: where steps are computed.
    """

    def __init__(self, device: torch.device) -> None:
        self._clock = DeviceClock(device)
        self._notes: list[tuple[Activity, str, int, Mark, list[Mark]]] | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything is noted."""
        return self._notes is not None

    def start(self) -> None:
        """Between steps."""
        self._notes = []

    def stop(self) -> list[LoggedSpan]:
        """Between steps: what there was since the start, in no order."""
        notes, self._notes = self._notes or [], None
        known = self.mark()
        if isinstance(known, torch.cuda.Event):
            known.synchronize()
        now = time.perf_counter_ns()

        def ns(mark: Mark) -> int:
            if isinstance(mark, int):
                return mark
            assert isinstance(known, torch.cuda.Event), "marks of one device"
            return now - round(mark.elapsed_time(known) * 1e6)

        ended = (note for note in notes if note[-1])  # what nobody waited for may not have
        return [LoggedSpan(activity, name, part, ns(begin), ns(end)) for activity, name, part, begin, (end,) in ended]

    def mark(self) -> Mark:
        """Now; on a GPU where its current stream stands."""
        return self._clock.mark()

    def note(self, activity: Activity, name: str, part: int, begin: Mark) -> None:
        """It ends now."""
        if self._notes is not None:
            self._notes.append((activity, name, part, begin, [self.mark()]))

    def follow(self, flight: InFlight, part: int) -> None:
        """It has just begun."""
        if self._notes is not None:
            ends: list[Mark] = []
            self._notes.append(("exchange", flight.name, part, self.mark(), ends))
            flight.call_behind(lambda: ends.append(self.mark()))
