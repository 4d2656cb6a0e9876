"""Where a row stands in a part file."""

from __future__ import annotations

from typing import NamedTuple


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
