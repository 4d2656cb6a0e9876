"""A stopwatch of work on a device."""

from __future__ import annotations

import time
from typing import TypeAlias

import torch

Mark: TypeAlias = "int | torch.cuda.Event"


class DeviceClock:
    """Marks are set where work is handed over and take their time where the device gets to them: nothing waits until
    somebody asks how long it took.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def mark(self) -> Mark:
        """Now, on the device; nanoseconds of `time.perf_counter_ns` without a GPU."""
        if self._device.type != "cuda":
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def ms(self, begin: Mark, end: Mark) -> float:
        """Milliseconds of the device between two marks; waits for the second."""
        if isinstance(begin, int) or isinstance(end, int):
            assert isinstance(begin, int) and isinstance(end, int), "marks of one clock"
            return (end - begin) / 1e6
        end.synchronize()
        return float(begin.elapsed_time(end))
