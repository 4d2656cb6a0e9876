"""The progress bar of a call: standard error only, one unit per prompt."""

from __future__ import annotations

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
        make = use_tqdm if callable(use_tqdm) else _standard_bar
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


def _standard_bar(**options: Any) -> ProgressBar:
    from tqdm import tqdm

    interval = _TERMINAL_INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S
    return tqdm(**options, file=sys.stderr, mininterval=interval, maxinterval=interval, dynamic_ncols=True)
