"""Tables of figures: drawn on a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table


class ReportTable:
    """Columns of texts; the first is aligned to the left, numbers to the right.

    Args:
        title: stands above.
        headings: one a column.
        num_left: columns aligned to the left.
    """

    def __init__(self, title: str, headings: Sequence[str], num_left: int = 1) -> None:
        self._title = title
        self._headings = tuple(headings)
        self._num_left = num_left
        self._rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """One row, a text for each heading."""
        self._rows.append(cells)

    def show(self) -> None:
        """To standard output."""
        console = Console()
        if console.is_terminal:
            console.print(self._drawn())
        else:
            typer.echo(self.plain())

    def plain(self) -> str:
        """Title, headings and rows, a line each, columns two blanks apart."""
        lines = [self._headings, *self._rows]
        widths = [max(len(cells[i]) for cells in lines) for i in range(len(self._headings))]
        return "\n".join([self._title, *("  ".join(self._aligned(cells, widths)).rstrip() for cells in lines)])

    def _aligned(self, cells: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.ljust(width) if i < self._num_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]

    def _drawn(self) -> Table:
        table = Table(title=self._title, title_justify="left")
        for i, heading in enumerate(self._headings):
            table.add_column(heading, justify="left" if i < self._num_left else "right")
        for cells in self._rows:
            table.add_row(*cells)
        return table
