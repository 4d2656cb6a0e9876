"""A range that a worker is computing: its part file, and the rows that are missing in it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepinfer.batch.atomic_file import write_atomically
from deepinfer.batch.claimed_range import ClaimedRange
from deepinfer.batch.job_directory import JobDirectory
from deepinfer.batch.part_file import PartFile
from deepinfer.batch.part_record import PartRecord
from deepinfer.batch.prepared_row import PreparedRow
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError


class OpenRange:
    """Takes results as they come; behind the last one the range is marked as done and given back."""

    def __init__(self, directory: JobDirectory, claimed: ClaimedRange, rows: range) -> None:
        """Opens the part. Raises JobWriteError, and JobError for a part that has rows of another range."""
        self.number = claimed.number
        self.rows = rows
        self._directory = directory
        self._claim = claimed.claim
        self._part = PartFile(directory.part(self.number))
        self._entries = self._part.contents.entries
        self._failures = {row: entry.error for row, entry in self._entries.items() if entry.error is not None}
        self._is_open = True
        for row in self._entries:
            if row not in rows:
                self.close()
                raise JobError(f"{self._path} has row {row}, which is not of this range: it belongs to another job")
        self.missing = {row for row in rows if row not in self._entries}

    @property
    def _path(self) -> str:
        return shown_path(self._directory.part(self.number))

    def check(self, prepared: PreparedRow) -> None:
        """Raise JobError when a row that has a result is another one now than when it was computed."""
        entry = self._entries.get(prepared.row.number)
        if entry is not None and entry.key != prepared.key:
            raise JobError(
                f"{self._path} has a result of row {prepared.row.number} ({prepared.row.custom_id!r}) with the key "
                f"{entry.key}, but the row's key is {prepared.key}: it belongs to another job; name a new directory"
            )

    def record(self, records: Sequence[PartRecord]) -> None:
        """Append results of rows that were missing. Raises JobWriteError."""
        self._part.append(records)
        for record in records:
            self.missing.remove(record.row)
            if record.error is not None:
                self._failures[record.row] = record.error

    def finish(self) -> None:
        """Mark the range as done and give it back. Raises JobWriteError."""
        assert not self.missing, "rows are missing"
        self._part.sync()
        codes = sorted(self._failures.values())
        failures = {code: codes.count(code) for code in codes}
        content = {"rows": len(self.rows), "failures": failures, "bytes": self._part.num_bytes}
        write_atomically(self._directory.done(self.number), json.dumps(content).encode("utf-8") + b"\n")
        self.close()

    def sync(self) -> None:
        """Make what was recorded survive a power cut. Raises JobWriteError."""
        self._part.sync()

    def close(self) -> None:
        """Give the range back as it is; idempotent."""
        if self._is_open:
            self._is_open = False
            self._part.close()
            self._claim.release()
