"""A stream on a CPU that gives results as a GPU's does: they are read when somebody waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from deepinfer.core.device_stream import Launched
from deepinfer.worker.inline_stream import InlineStream

T = TypeVar("T")


class LateStream(InlineStream):
    """See `DeviceStream`: work runs at once, and what is on its way stays there until then."""

    def launch(self, work: Callable[[], T]) -> Launched[T]:
        return _LateWork(work())

    def call(self, work: Callable[[], T]) -> Launched[T]:
        return self.launch(work)


class _LateWork(Generic[T]):
    done = True
    failed = lost = False
    span = (0, 0)

    def __init__(self, value: T) -> None:
        self._value = value
        self._is_fetched = False

    def wait(self) -> T:
        fetch: Callable[[], Any] | None = getattr(self._value, "fetch", None)
        if fetch is not None and not self._is_fetched:
            self._value = fetch()
        self._is_fetched = True
        return self._value
