"""The results of a range as they came: append-only, and valid after a crash at any moment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deepinfer.batch.atomic_file import write_error
from deepinfer.batch.part_contents import PartContents
from deepinfer.batch.part_record import PartRecord


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
