"""Who runs work of which neither shapes nor addresses ever change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol


class StaticCalls(Protocol):
    """`EagerCalls`, or `CapturedCalls` on a GPU.

    Work reads and writes tensors that stay where they are and launches the same operations on them every time it has
    the same key: no shape depends on a value, nothing waits for the device, the host's numbers are those of the key.
    What later work or the host is to see goes into tensors allocated outside; others may be overwritten as soon as the
    call is over.
    """

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Launch `work` once."""
        ...
