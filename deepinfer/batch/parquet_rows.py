"""Parquet: rows as JSON objects, a row group at a time. The only import site of the optional library ``pyarrow``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from deepinfer.batch.input_line import InputLine
from deepinfer.config.strict_json import shown_path
from deepinfer.errors import JobError, UnsupportedFeatureError

_BATCH_ROWS: Final = 256


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

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._file.schema_arrow.names)

    def lines_from(self, place: int) -> Iterator[InputLine]:
        """The rows from number `place` on."""
        try:
            first = 0
            for group in range(self._file.num_row_groups):
                end = first + self._file.metadata.row_group(group).num_rows
                if end > place:
                    yield from self._group(group, first, place)
                first = end
        except self._errors as error:
            raise self._damaged(error) from error

    def _group(self, group: int, first: int, place: int) -> Iterator[InputLine]:
        for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group]):
            skipped = min(max(place - first, 0), batch.num_rows)
            for number, row in enumerate(batch.slice(skipped).to_pylist(), first + skipped):
                yield self._line(number, row)
            first += batch.num_rows

    def _line(self, number: int, row: dict[str, Any]) -> InputLine:
        text = msgspec.json.encode(row)
        return InputLine(number, text if len(text) <= self._max_row_bytes else None, len(text))

    def close(self) -> None:
        self._file.close()

    def _damaged(self, error: Exception) -> JobError:
        return JobError(f"{shown_path(self._path)}: not a whole Parquet file ({error}); write it again")
