"""Where a row stands in a part file."""

from __future__ import annotations

from typing import IO, NamedTuple

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

    def record(self, part: IO[bytes]) -> PartRecord:
        """The whole record, out of the part's file; a part that was read is never changed below its good end."""
        part.seek(self.offset)
        record = PartRecord.decode(part.read(self.size))
        assert record is not None, "it was whole a moment ago"
        return record

    def result(self, part: IO[bytes]) -> bytes:
        """The result line of the record, without its end."""
        result = self.record(part).result
        assert result is not None, "notes to do a row again have no entry"
        return result
