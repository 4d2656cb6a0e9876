"""The results of a range as they came: append-only, and valid after a crash at any moment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepinfer.batch.atomic_file import write_error
from deepinfer.batch.part_record import PartRecord


class PartEntry(NamedTuple):
    """Where a row's latest record stands.

    Attributes:
        offset, size: of the line, in bytes.
        key: of the row.
        error: code of its failure, or None.
    """

    offset: int
    size: int
    key: str
    error: str | None


@dataclass(frozen=True, slots=True)
class PartContents:
    """What a part file holds; made by `read`.

    Attributes:
        entries: latest record of each row that has a result.
        num_good_bytes: up to the end of the last line before the first damaged one.
        is_damaged: whether anything stands behind that.
        num_attempts: records of each row, notes to do it again not counted.
    """

    entries: dict[int, PartEntry]
    num_good_bytes: int
    is_damaged: bool
    num_attempts: dict[int, int]

    @classmethod
    def read(cls, path: Path) -> PartContents:
        """Read a part, line by line; a missing file is an empty part. A damaged line ends it: nothing is guessed."""
        entries: dict[int, PartEntry] = {}
        attempts: dict[int, int] = {}
        offset, is_damaged = 0, False
        if path.exists():
            with open(path, "rb") as file:
                for line in file:
                    record = PartRecord.decode(line)
                    if record is None:
                        is_damaged = True
                        break
                    if record.result is None:
                        entries.pop(record.row, None)
                    else:
                        attempts[record.row] = attempts.get(record.row, 0) + 1
                        entries[record.row] = PartEntry(offset, len(line), record.key, record.error)
                    offset += len(line)
        return cls(entries, offset, is_damaged, attempts)


class PartFile:
    """Appends records; used by the one worker that holds the range."""

    def __init__(self, path: Path) -> None:
        """Opens the file, made if it is missing, and cuts off a damaged end. Raises JobWriteError."""
        self._path = path
        try:
            self.contents = PartContents.read(path)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            if self.contents.is_damaged:
                os.ftruncate(self._handle, self.contents.num_good_bytes)
        except OSError as error:
            raise write_error(path, error) from error
        self._num_bytes = self.contents.num_good_bytes

    @property
    def num_bytes(self) -> int:
        """Size of what is valid."""
        return self._num_bytes

    def append(self, records: Sequence[PartRecord]) -> None:
        """Write records. Raises JobWriteError when not all could be written; none of them is then in the file."""
        content = b"".join(record.encode() for record in records)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._handle, left) :]
        except OSError as error:
            with suppress(OSError):  # else whoever opens the part next cuts it
                os.ftruncate(self._handle, self._num_bytes)
            raise write_error(self._path, error) from error
        self._num_bytes += len(content)

    def sync(self) -> None:
        """Make what was appended survive a power cut. Raises JobWriteError."""
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
