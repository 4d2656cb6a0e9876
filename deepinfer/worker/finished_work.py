"""Work that ran on the caller's thread: its end is known."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class FinishedWork(Generic[T]):
    """See `Launched`. Runs `work` at once; its exception is the constructor's."""

    __slots__ = ("_span", "_value")

    done = True
    failed = lost = False

    def __init__(self, work: Callable[[], T]) -> None:
        begin = time.perf_counter_ns()
        value = work()
        fetch: Callable[[], Any] | None = getattr(value, "fetch", None)
        self._value = value if fetch is None else fetch()  # nothing is on its way any more
        self._span = begin, time.perf_counter_ns()

    @property
    def span(self) -> tuple[int, int]:
        """When it ran, by `time.perf_counter_ns`."""
        return self._span

    def wait(self) -> T:
        """Its value."""
        return self._value
