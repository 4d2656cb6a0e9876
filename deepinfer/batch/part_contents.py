"""What a part file holds, read line by line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deepinfer.batch.part_entry import PartEntry
from deepinfer.batch.part_record import PartRecord


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
