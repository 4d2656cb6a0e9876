"""Where every row of the input is: 16 bytes a row on disk, made in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import numpy as np

from deepinfer.batch.atomic_file import atomic_file
from deepinfer.batch.duplicate_ids import refuse_duplicates
from deepinfer.batch.input_line import InputLine
from deepinfer.batch.input_row import default_id
from deepinfer.batch.line_source import LineSource
from deepinfer.batch.row_fields import read_custom_id, read_fields
from deepinfer.batch.row_parser import RowParser
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError, RequestError

_ROW: Final = np.dtype([("hash", "<u8"), ("place", "<u8")])
_CHUNK_ROWS: Final = 65536


class RowIndex:
    """Hash of the id and place of each row, mapped from a file."""

    def __init__(self, path: Path, num_rows: int) -> None:
        """JobError when the file is not one of `num_rows` rows."""
        expected = num_rows * _ROW.itemsize
        if not path.is_file() or path.stat().st_size != expected:
            raise JobError(f"{shown_path(path)}: missing or not {expected:,} bytes; begin the job in a new directory")
        self._rows = np.memmap(path, _ROW, "r", shape=(num_rows,))

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, number: int) -> int:
        """Where row `number` begins, as its LineSource counts."""
        return int(self._rows["place"][number])

    def belongs(self, number: int, custom_id: str) -> bool:
        """Whether row `number` had this id when the index was made."""
        return int(self._rows["hash"][number]) == id_hash(custom_id)

    def find(self, custom_id: str) -> list[int]:
        """Numbers of the rows whose id has the same hash: the row itself, and perhaps others."""
        wanted, found = id_hash(custom_id), []
        for begin in range(0, len(self._rows), _CHUNK_ROWS):
            hashes = self._rows["hash"][begin : begin + _CHUNK_ROWS]
            found += (np.flatnonzero(hashes == wanted) + begin).tolist()
        return found

    @classmethod
    def build(cls, path: Path, source: LineSource, parser: RowParser) -> RowIndex:
        """Read the whole input once and write the index.

        Args:
            path: of the index.
            source, parser: of the input.

        Raises JobError when there is no row, when no row has a column that asks for something, and for two rows of one
        id, naming both.
        """
        with atomic_file(path) as file:
            num_rows = _write_rows(file, source, parser)
        index = cls(path, num_rows)
        refuse_duplicates(index._rows["hash"], lambda number: index.id_of(number, source, parser))
        return index

    def id_of(self, number: int, source: LineSource, parser: RowParser) -> str:
        """The id of a row, read again from the input."""
        line = next(source.lines_from(self.place(number)))
        return row_id(number, line, parser)[0]


def row_id(number: int, line: InputLine, parser: RowParser) -> tuple[str, bool]:
    """The id of a row, and whether the row asks for something; a row that cannot be read has its default id."""
    try:
        fields = read_fields(line)
        answers = parser.answers_to(fields)
        try:
            return read_custom_id(fields, parser.id_column) or default_id(number), answers
        except RequestError:
            return default_id(number), answers
    except RequestError:
        return default_id(number), False


def id_hash(custom_id: str) -> int:
    """64-bit hash of an id."""
    return int.from_bytes(hashlib.blake2b(custom_id.encode("utf-8"), digest_size=8).digest(), "little")


def _write_rows(file: IO[bytes], source: LineSource, parser: RowParser) -> int:
    num_rows, num_answering = 0, 0
    for chunk in _chunks(source.lines_from(0)):
        rows = np.empty(len(chunk), _ROW)
        for i, line in enumerate(chunk):
            custom_id, answers = row_id(num_rows + i, line, parser)
            num_answering += answers
            rows[i] = (id_hash(custom_id), line.place)
        file.write(rows.tobytes())
        num_rows += len(chunk)
    if not num_rows:
        raise JobError("the input has no rows: there is nothing to do")
    if not num_answering:
        names = " or ".join(repr(name) for name in parser.wanted)
        raise JobError(f"none of the {num_rows:,} rows has a column {names}: {parser.advice}")
    return num_rows


def _chunks(lines: Iterator[InputLine]) -> Iterator[list[InputLine]]:
    """Lines in groups of bounded number and size."""
    chunk, num_bytes = [], 0
    for line in lines:
        chunk.append(line)
        num_bytes += line.num_bytes
        if len(chunk) >= _CHUNK_ROWS or num_bytes >= 2**24:
            yield chunk
            chunk, num_bytes = [], 0
    if chunk:
        yield chunk
