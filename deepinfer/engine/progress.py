"""The progress bar of a call: standard error only, one unit per prompt."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol

_TERMINAL_INTERVAL_S: Final = 0.1
_LOG_INTERVAL_S: Final = 5.0


class ProgressBar(Protocol):
    """What is used of a tqdm-like bar."""

    def update(self, n: float = 1) -> Any: ...
    def close(self) -> Any: ...


class Progress:
    """Counts ended prompts, failed ones included, so that the last line always says 100 %."""

    def __init__(self, use_tqdm: bool | Callable[..., Any], total: int, description: str) -> None:
        """Args:
        use_tqdm: False: silent; True: tqdm; a callable: called like ``tqdm(total=, desc=, unit=)``.
        """
        self._bar: ProgressBar | None = None
        if total == 0 or use_tqdm is False:
            return
        make = use_tqdm if callable(use_tqdm) else _StandardBar
        self._bar = make(total=total, desc=description, unit="prompt")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self) -> None:
        """One more prompt has ended."""
        if self._bar is not None:
            self._bar.update(1)


class _StandardBar:
    """tqdm on standard error. It ends silently when standard error does: a closed pipe fails no call."""

    def __init__(self, **options: Any) -> None:
        from tqdm import tqdm

        self._bar: ProgressBar | None = None
        if sys.stderr is None or sys.stderr.closed:
            return
        with contextlib.suppress(OSError, ValueError):
            interval = _TERMINAL_INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S
            timing = {"mininterval": interval, "maxinterval": interval}
            self._bar = tqdm(**options, **timing, file=sys.stderr, dynamic_ncols=True)

    def update(self, n: float = 1) -> None:
        self._try(lambda bar: bar.update(n))

    def close(self) -> None:
        self._try(lambda bar: bar.close())

    def _try(self, action: Callable[[ProgressBar], Any]) -> None:
        if self._bar is None:
            return
        try:
            action(self._bar)
        except (OSError, ValueError):
            self._bar = None
