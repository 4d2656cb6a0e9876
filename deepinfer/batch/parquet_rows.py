"""Parquet: rows as JSON objects, a row group at a time. The only import site of the optional library ``pyarrow``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import msgspec

from deepinfer.batch.input_line import InputLine
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError, UnsupportedFeatureError

_BATCH_ROWS: Final = 256  # at a time, and fewer where rows are large
_BATCH_BYTES: Final = 2**22
_WRONG_VALUES: Final = (ValueError, TypeError, OverflowError)  # texts that are no UTF-8, dates beyond the year 9999


class ParquetRows:
    """Rows of a Parquet file. Dates become ISO texts, decimals texts and bytes base64, as JSON has none of them."""

    def __init__(self, path: str, max_row_bytes: int) -> None:
        """Args:
        path: of the file.
        max_row_bytes: longer rows come without their text.

        Raises UnsupportedFeatureError without the library, JobError for a file that is no Parquet.
        """
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise UnsupportedFeatureError(
                f"{shown_path(path)} is a Parquet file: pip install 'deepinfer[batch]', or convert it to JSON lines"
            ) from error
        self._path = path
        self._max_row_bytes = max_row_bytes
        self._errors = (pyarrow.ArrowException, OSError)
        try:
            self._file: Any = parquet.ParquetFile(path)
        except self._errors as error:
            raise self._damaged(error) from error
        groups = range(self._file.num_row_groups)
        self._ends = list(accumulate((self._file.metadata.row_group(i).num_rows for i in groups), initial=0))[1:] or [0]
        self._group = self._rows = range(0)
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = None

    def lines_from(self, place: int) -> Iterator[InputLine]:
        """The rows from number `place` on. A later row of the same group is found without reading the group anew."""
        try:
            while place < self._ends[-1]:
                first, batch = self._batch_with(place)
                yield from self._lines(batch.slice(place - first), place)
                place = first + batch.num_rows
        except self._errors as error:
            raise self._damaged(error) from error

    def _batch_with(self, place: int) -> tuple[int, Any]:
        """The batch that holds a row, and the number of its first row."""
        if place not in self._group or place < self._rows.start:
            group = bisect_right(self._ends, place)
            first = self._ends[group - 1] if group else 0
            self._group, self._rows = range(first, self._ends[group]), range(first, first)
            mean = self._file.metadata.row_group(group).total_byte_size // len(self._group)
            size = min(max(_BATCH_BYTES // max(mean, 1), 1), _BATCH_ROWS)
            self._batches = self._file.iter_batches(batch_size=size, row_groups=[group])
        while place not in self._rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                raise self._damaged(f"row {place} is missing")
            self._rows = range(self._rows.stop, self._rows.stop + self._batch.num_rows)
        return self._rows.start, self._batch

    def _lines(self, batch: Any, first: int) -> Iterator[InputLine]:
        try:
            rows = batch.to_pylist()
        except _WRONG_VALUES:  # of one row; the others are all right
            for number in range(batch.num_rows):
                try:
                    yield self._line(first + number, batch.slice(number, 1).to_pylist()[0])
                except _WRONG_VALUES as error:
                    yield InputLine(first + number, None, 0, f"a value of the row cannot be read ({error})")
            return
        for number, row in enumerate(rows, first):
            yield self._line(number, row)

    def _line(self, number: int, row: dict[str, Any]) -> InputLine:
        try:
            text = msgspec.json.encode(row, enc_hook=_without_pandas)
        except _WRONG_VALUES as error:
            return InputLine(number, None, 0, f"a value of the row cannot be written as JSON ({error})")
        return InputLine(number, text if len(text) <= self._max_row_bytes else None, len(text))

    def close(self) -> None:
        self._file.close()

    def _damaged(self, error: object) -> JobError:
        return JobError(f"{shown_path(self._path)}: not a whole Parquet file ({error}); write it again")


def _without_pandas(value: Any) -> Any:
    """Nanoseconds, for which pyarrow takes pandas' types where it is installed, as without it."""
    if not (getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0)):
        for name in ("to_pydatetime", "to_pytimedelta"):
            if hasattr(value, name):
                return getattr(value, name)()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")
