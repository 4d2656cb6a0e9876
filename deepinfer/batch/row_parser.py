"""What a job needs to read the rows of its input."""

from __future__ import annotations

from typing import Protocol

from deepinfer.batch.input_line import InputLine
from deepinfer.batch.input_row import InputRow
from deepinfer.batch.row_fields import RowFields


class RowParser(Protocol):
    """Reads lines of one format."""

    @property
    def id_column(self) -> str:
        """Field that holds a row's id."""
        ...

    @property
    def wanted(self) -> tuple[str, ...]:
        """Fields of which a row needs one, for the message when no row has any."""
        ...

    @property
    def advice(self) -> str:
        """What to do about an input in which no row has any, for the same message."""
        ...

    def parse(self, number: int, line: InputLine) -> InputRow:
        """A row; what is wrong with it is its `error`, never an exception."""
        ...

    def answers_to(self, fields: RowFields) -> bool:
        """Whether a row has a field that asks for something."""
        ...
