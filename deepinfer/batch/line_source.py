"""What a job needs of an input file, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from deepinfer.batch.input_line import InputLine


class LineSource(Protocol):
    """Reads forward from any row whose place is known; nothing but the row at hand is kept in memory."""

    def lines_from(self, place: int) -> Iterator[InputLine]:
        """The rows from the one at `place` (0: the first) to the end. Raises JobError for a damaged file."""
        ...

    def close(self) -> None:
        """Close the file; idempotent."""
        ...
