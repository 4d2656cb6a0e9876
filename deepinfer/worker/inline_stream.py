"""A stream without a device of its own: work runs where and when it is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deepinfer.core.device_stream import Launched
from deepinfer.worker.finished_work import FinishedWork

T = TypeVar("T")


class InlineStream:
    """See `DeviceStream`. For engines that run step after step on a CPU."""

    def launch(self, work: Callable[[], T]) -> Launched[T]:
        """Run `work` now."""
        return FinishedWork(work)

    def call(self, work: Callable[[], T]) -> Launched[T]:
        """Run `work` now."""
        return FinishedWork(work)

    def drain(self) -> None:
        """Nothing is ever left."""

    def close(self) -> None:
        """Nothing is held."""
