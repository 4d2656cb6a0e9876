"""What somebody asks for when a job begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deepinfer.batch.column_names import ColumnNames
from deepinfer.errors import JobError

_MAX_SEED: Final = 2**63 - 1
_MOST_RANGE_ROWS: Final = 50_000
_WANTED_RANGES: Final = 64
_USUAL_RANGE_ROWS: Final = (16, 1000)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Turned into a manifest by `BatchJob.begin`.

    Attributes:
        input: file of rows.
        format: "auto", "jsonl", "parquet" or "openai".
        columns: what its columns mean; of no meaning in the OpenAI format.
        sampling: sampling parameters that differ from the checkpoint's defaults.
        chat: chat options that differ from the checkpoint's.
        seed: 0 .. 2^63 - 1.
        engine: options as `LLM` takes them.
        token_ids: whether results carry token ids.
        range_rows: rows of a range, at most 50,000; None: a 64th of the rows, from 16 to 1,000.
        max_row_bytes: a longer row is a row error.
    """

    input: Path
    format: str = "auto"
    columns: ColumnNames = field(default_factory=ColumnNames)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    engine: Mapping[str, Any] = field(default_factory=dict)
    token_ids: bool = False
    range_rows: int | None = None
    max_row_bytes: int = 2**24

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed <= _MAX_SEED:
            raise JobError(f"seed = {self.seed!r}: expected an integer from 0 to 2^63 - 1")
        if self.range_rows is not None and not 1 <= self.range_rows <= _MOST_RANGE_ROWS:
            raise JobError(f"range_rows = {self.range_rows}: expected 1 to {_MOST_RANGE_ROWS:,}")

    def rows_per_range(self, num_rows: int) -> int:
        """Rows of a range of a job of `num_rows` rows."""
        least, most = _USUAL_RANGE_ROWS
        return self.range_rows or min(max(-(-num_rows // _WANTED_RANGES), least), most)
