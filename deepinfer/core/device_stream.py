"""How work gets onto a device: launched in order, waited for later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Launched(Protocol[T_co]):
    """Work that was handed to a stream."""

    @property
    def done(self) -> bool:
        """Whether the device is through with it, however it ended."""
        ...

    @property
    def failed(self) -> bool:
        """Whether it has ended with an exception."""
        ...

    @property
    def lost(self) -> bool:
        """Whether it never ends: its thread stayed behind in the process that this one was forked from."""
        ...

    @property
    def span(self) -> tuple[int, int]:
        """When the device began and ended it, by `time.perf_counter_ns`. To be read behind `wait`."""
        ...

    def wait(self) -> T_co:
        """The work's value, or the exception that it raised. May be repeated."""
        ...


class DeviceStream(Protocol):
    """One device. What was launched first ends first, and nothing runs beside anything else.

    One thread at a time uses a stream, any thread waits. Where the work runs on the caller's thread, its exception
    comes out of `launch`; else out of `wait`.
    """

    def launch(self, work: Callable[[], T]) -> Launched[T]:
        """Run `work` on the device, behind everything launched before, and go on without waiting for it.

        A value with a method `fetch` is on its way: `wait` gives what that returns once the device is through.
        """
        ...

    def call(self, work: Callable[[], T]) -> Launched[T]:
        """As `launch`, but the host's part of `work` runs on the caller's thread, and meets no other work's there."""
        ...

    def drain(self) -> None:
        """Wait until everything launched has ended; exceptions stay with their work."""
        ...

    def close(self) -> None:
        """Drain and give the device's thread back; idempotent. Nothing can be launched afterwards."""
        ...
