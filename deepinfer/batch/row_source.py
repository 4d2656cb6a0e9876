"""The rows that a worker has to compute, range after range, ready for the engine."""

from __future__ import annotations

from collections.abc import Iterator

from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.job_manifest import JobManifest
from deepinfer.batch.open_range import OpenRange
from deepinfer.batch.range_claims import RangeClaims
from deepinfer.batch.row_preparer import RowPreparer
from deepinfer.batch.row_reader import RowReader
from deepinfer.batch.row_to_do import RowToDo


class RowSource:
    """Claims a range when the one before is used up.

    Within a window of a range the longest prompts come first, so that rows which run together are of about one length
    and the last ones of a job are short. Results do not depend on the order.
    """

    def __init__(
        self,
        manifest: JobManifest,
        directory: JobDirectory,
        claims: RangeClaims,
        reader: RowReader,
        preparer: RowPreparer,
    ) -> None:
        self._manifest = manifest
        self._directory = directory
        self._claims = claims
        self._reader = reader
        self._preparer = preparer
        self._rows: Iterator[RowToDo] | None = None
        self._open: list[OpenRange] = []

    @property
    def open_ranges(self) -> list[OpenRange]:
        """Ranges that this worker holds."""
        return self._open

    def next(self) -> RowToDo | None:
        """The next row; None when every range is done or held by others, which may change.

        Raises JobError for a part or an input of another job, JobWriteError.
        """
        if self._rows is None:
            self._rows = self._all()
        row = next(self._rows, None)
        if row is None:
            self._rows = None
        return row

    def settle(self) -> None:
        """Mark ranges as done whose rows all have results, and give them back. Raises JobWriteError."""
        for home in [item for item in self._open if not item.missing]:
            home.finish()
            self._open.remove(home)

    def close(self) -> None:
        """Give back every range as it is."""
        while self._open:
            self._open.pop().close()

    def _all(self) -> Iterator[RowToDo]:
        while claimed := self._claims.take():
            home = OpenRange(self._directory, claimed, self._manifest.rows_of(claimed.number))
            self._open.append(home)
            if not home.missing:  # whoever had it was killed just before its mark
                self.settle()
                continue
            for window in self._reader.windows(home.rows):
                prepared = [self._preparer.prepare(row) for row in window]
                for item in prepared:
                    home.check(item)
                todo = [item for item in prepared if item.row.number in home.missing]
                for item in sorted(todo, key=lambda row: -len(row.token_ids)):
                    yield RowToDo(item, home)
