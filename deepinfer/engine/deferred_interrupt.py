"""Ctrl-C between steps instead of inside one, so that the engine stays usable."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType


class DeferredInterrupt:
    """Context manager around one step: Ctrl-C is raised at its end.

    A second Ctrl-C is raised at once where a step may be broken off, which is its long part, the computation; the
    parts that keep the books are short and run to their end.

    Acts only in the main thread and only while Python's own handler is installed; an application that handles SIGINT
    itself is left alone.
    """

    def __init__(self, may_break: Callable[[], bool] = lambda: False) -> None:
        """`may_break` tells whether the step may be broken off now."""
        self._may_break = may_break
        self._pending = False
        self._active = False

    def __enter__(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._active = True
            signal.signal(signal.SIGINT, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._active:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._pending and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._pending and self._may_break():
            raise KeyboardInterrupt
        self._pending = True
