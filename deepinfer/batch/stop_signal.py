"""SIGTERM and Ctrl-C as a wish that a worker sees between two steps."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignal:
    """Context manager; inside, the first signal asks for an orderly end, and a second one for an immediate one.

    Acts in the main thread only; elsewhere nobody asks but the caller, with `request`.
    """

    def __init__(self) -> None:
        self._count = 0
        self._before: dict[int, Any] = {}

    @property
    def is_requested(self) -> bool:
        """Whether no new row is to be begun."""
        return self._count > 0

    @property
    def is_urgent(self) -> bool:
        """Whether rows in flight are to be dropped."""
        return self._count > 1

    def request(self) -> None:
        """Ask for the end."""
        self._count += 1

    def __enter__(self) -> StopSignal:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self._count += 1
