"""A GPU as the device: work hands kernels to one stream of torch's, events tell when they have run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

from deepinfer.core.device_stream import Launched

T = TypeVar("T")


class CudaStream:
    """See `DeviceStream`. `launch` runs the host's part of the work, which only hands over kernels and copies into
    pinned memory; `wait` waits for their end and then lets the value read that memory (`fetch`).

    Args:
        device: whose current stream orders everything from now on, whatever the caller makes current later: a step may
            be in flight between two of its calls.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.current_stream(device)
        self._clock = _EventClock()

    def launch(self, work: Callable[[], T]) -> Launched[T]:
        """Run the host's part now; an exception of it is raised here."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self._stream):
            begin.record()
            value = work()
            end.record()
        return _CudaWork(value, (begin, end), self._clock)

    def call(self, work: Callable[[], T]) -> Launched[T]:
        """As `launch`, which runs the host's part here as well."""
        return self.launch(work)

    def drain(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self._device)

    def close(self) -> None:
        """Wait for the device."""
        self.drain()


class _EventClock:
    """Places events on the host's clock, by one event of which both times are known. That one is renewed whenever
    somebody had to wait for an event, so that the two clocks do not drift apart.
    """

    def __init__(self) -> None:
        self._known: tuple[torch.cuda.Event, int] | None = None

    def await_ns(self, event: torch.cuda.Event) -> int:
        """Waits for `event`; when it came, by `time.perf_counter_ns`."""
        was_done = event.query()
        event.synchronize()
        if was_done and self._known is not None:
            known, known_ns = self._known
            return known_ns + round(known.elapsed_time(event) * 1e6)
        now = time.perf_counter_ns()
        self._known = event, now
        return now


class _CudaWork(Generic[T]):
    """See `Launched`."""

    failed = lost = False  # what fails on the host fails at once; behind a fault of the device nothing goes on

    __slots__ = ("_clock", "_events", "_is_fetched", "_span", "_value")

    def __init__(self, value: T, events: tuple[torch.cuda.Event, torch.cuda.Event], clock: _EventClock) -> None:
        self._value = value
        self._events = events
        self._clock = clock
        self._span: tuple[int, int] | None = None
        self._is_fetched = False

    @property
    def done(self) -> bool:
        return self._span is not None or self._events[1].query()

    @property
    def span(self) -> tuple[int, int]:
        assert self._span is not None, "wait for it first"
        return self._span

    def wait(self) -> T:
        if self._span is None:
            self._span = self._await_end()
        if not self._is_fetched:
            fetch: Callable[[], Any] | None = getattr(self._value, "fetch", None)
            self._value = self._value if fetch is None else fetch()
            self._is_fetched = True
        return self._value

    def _await_end(self) -> tuple[int, int]:
        begin, end = self._events
        end_ns = self._clock.await_ns(end)
        return end_ns - round(begin.elapsed_time(end) * 1e6), end_ns
