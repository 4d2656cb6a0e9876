"""A row that a worker has to compute."""

from __future__ import annotations

from typing import NamedTuple

from deepinfer.batch.open_range import OpenRange
from deepinfer.batch.prepared_row import PreparedRow


class RowToDo(NamedTuple):
    """A row and the range that its result belongs to."""

    prepared: PreparedRow
    home: OpenRange
