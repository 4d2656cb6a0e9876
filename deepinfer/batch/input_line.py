"""One line of an input, as the formats hand it out."""

from __future__ import annotations

from typing import NamedTuple


class InputLine(NamedTuple):
    """A row before anybody has read it.

    Attributes:
        place: where it begins: byte offset in the (decompressed) text; in Parquet the number of the row.
        text: a JSON object as bytes; None for a line beyond the limit, which is never held in memory, or a damaged one.
        num_bytes: size of the line.
        damage: why the row cannot be read though the file can; None when it can, or is too long.
    """

    place: int
    text: bytes | None
    num_bytes: int
    damage: str | None = None
