"""Rows of a range, in windows that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deepinfer.batch.input_row import InputRow
from deepinfer.batch.line_source import LineSource
from deepinfer.batch.row_index import RowIndex
from deepinfer.batch.row_parser import RowParser
from deepinfer.errors import JobError

_WINDOW_BYTES: Final = 2**22


class RowReader:
    """Reads rows by number."""

    def __init__(self, source: LineSource, parser: RowParser, index: RowIndex) -> None:
        self._source = source
        self._parser = parser
        self._index = index

    def windows(self, rows: range) -> Iterator[list[InputRow]]:
        """The rows in order, in lists of a few MiB at most. JobError when the input ends before the last."""
        window: list[InputRow] = []
        num_bytes = 0
        for row in self.rows(rows):
            window.append(row)
            num_bytes += row.num_bytes
            if num_bytes >= _WINDOW_BYTES:
                yield window
                window, num_bytes = [], 0
        if window:
            yield window

    def rows(self, rows: range) -> Iterator[InputRow]:
        """The rows in order. JobError when the input is not what it was."""
        if not rows:
            return
        lines = self._source.lines_from(self._index.place(rows[0]))
        for number in rows:
            line = next(lines, None)
            if line is None:
                raise JobError(f"the input ends before row {number}: it was changed since the job began")
            row = self._parser.parse(number, line)
            if not self._index.belongs(number, row.custom_id):
                raise JobError(f"row {number} is not the one of the index: the input or rows.idx was changed meanwhile")
            yield row

    def row(self, number: int) -> InputRow:
        """One row."""
        return next(self.rows(range(number, number + 1)))

    def find(self, name: str) -> InputRow:
        """The row of an id, or of a number. JobError when there is none."""
        for number in self._index.find(name):
            row = self.row(number)
            if row.custom_id == name:
                return row
        if name.isascii() and name.isdigit() and int(name) < len(self._index):
            return self.row(int(name))
        raise JobError(f"no row has the id {name!r}, and it is no number from 0 to {len(self._index) - 1}")

    def close(self) -> None:
        """Close the input."""
        self._source.close()
