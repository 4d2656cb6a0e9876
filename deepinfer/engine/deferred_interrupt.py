"""Ctrl-C between steps instead of inside one, so that the engine stays usable."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class DeferredInterrupt:
    """Context manager around one step: the first Ctrl-C is raised at its end, a second one at once.

    Acts only in the main thread and only while Python's own handler is installed; an application that handles SIGINT
    itself is left alone.
    """

    def __init__(self) -> None:
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
        if self._pending and kind is None:
            raise KeyboardInterrupt

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._pending:
            raise KeyboardInterrupt
        self._pending = True
