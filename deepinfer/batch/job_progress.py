"""How a job goes on, for somebody who watches: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.row_tally import RowTally
from deepinfer.batch.session_totals import SessionTotals

_TERMINAL_SECONDS: Final = 0.5
_LINE_SECONDS: Final = 10.0


class JobProgress:
    """Rows of all workers, and from this worker's rows the tokens of the whole job and what is left of its time.

    Writes to the stream that it was given alone; when that breaks, it is silent from then on.
    """

    def __init__(
        self,
        stream: TextIO | None,
        directory: JobDirectory,
        manifest: JobManifest,
        line_seconds: float = _LINE_SECONDS,
    ) -> None:
        """Args:
        stream: standard error, as a rule; None: nothing is shown.
        directory, manifest: of the job.
        line_seconds: between two lines where `stream` is no terminal.
        """
        self._stream = stream
        self._tally = RowTally(directory, manifest)
        self._num_rows = num_rows = manifest.num_rows
        self._bar: Progress | None = None
        self._seconds = line_seconds
        if stream is not None and stream.isatty():
            self._bar = Progress(
                TextColumn("rows"), BarColumn(), TextColumn("{task.description}"), console=Console(file=stream)
            )
            self._task = self._bar.add_task("", total=num_rows)
            self._seconds = _TERMINAL_SECONDS
        self._began = self._shown = time.monotonic()
        self._num_before = self._tally.count()

    def __enter__(self) -> JobProgress:
        self._began = self._shown = time.monotonic()  # loading a model is no part of the rate
        self._num_before = self._tally.count()
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, totals: SessionTotals) -> None:
        """Show how far it is, unless that was done a moment ago."""
        if time.monotonic() - self._shown >= self._seconds:
            self.show(totals)

    def show(self, totals: SessionTotals) -> None:
        """Show how far it is."""
        if self._stream is None:
            return
        self._shown = time.monotonic()
        num_ended = self._tally.count()
        words = f"{num_ended:,} of {self._num_rows:,}{self._words(num_ended, totals)}"
        with suppress(OSError, ValueError):  # a closed pipe fails no job
            if self._bar is not None:
                self._bar.update(self._task, completed=num_ended, description=words)
            else:
                self._stream.write(f"rows {words}\n")
                self._stream.flush()

    def _words(self, num_ended: int, totals: SessionTotals) -> str:
        """Tokens so far, expected, a second, and the time left at that rate; empty before the first row."""
        num_new, seconds = num_ended - self._num_before, self._shown - self._began
        if num_new <= 0 or not totals.num_rows or seconds <= 0:
            return ""
        per_row = totals.num_tokens / totals.num_rows
        rate, left = num_new * per_row / seconds, (self._num_rows - num_ended) * per_row
        time_left = _clock(left / rate) if rate else "unknown"
        return f", {left:,.0f} tokens to go at {rate:,.1f} a second: {time_left} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
