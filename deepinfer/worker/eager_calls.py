"""Runs static work operation by operation: on a CPU, and with `enforce_eager`."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class EagerCalls:
    """See `StaticCalls`."""

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        """Call `work`."""
        work()
