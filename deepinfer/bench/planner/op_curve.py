"""What a call of one op takes, by its rows."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

_TILE_ROWS: Final = 8  # from so many rows on products take their tile form (tilelang_ops/gemm)


class Growth(StrEnum):
    """How an op's time goes on between two measured numbers of rows.

    Attributes:
        ROWS: in a straight line: what it does, it does row by row.
        WEIGHTS: a product. Its weights pass once for all rows. A point behind 8 rows stands for the tile form, whose
            time hardly depends on rows until the next point: it holds from 8 rows on.
    """

    ROWS = "rows"
    WEIGHTS = "weights"


class OpCurve:
    """Microseconds of a call through measured points; behind the last one the line goes on as between the last two.

    Args:
        points: (rows, microseconds), at least one, rows ascending.
        growth: between points.
    """

    def __init__(self, points: Sequence[tuple[float, float]], growth: Growth) -> None:
        assert points, "an op without a measured point"
        self._points = _knees(points) if growth is Growth.WEIGHTS else list(points)

    def us(self, rows: float) -> float:
        """Of a call with so many rows; 0 for none."""
        if rows <= 0:
            return 0.0
        points = self._points
        if len(points) == 1 or rows <= points[0][0]:
            return points[0][1]
        begin, end = next(
            (pair for pair in pairwise(points) if rows <= pair[1][0]),
            (points[-2], points[-1]),
        )
        slope = (end[1] - begin[1]) / (end[0] - begin[0])
        return begin[1] + slope * (rows - begin[0])


def _knees(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """With the point from which the tile form's time holds, where measured points leave it out."""
    knees = list(points)
    for (rows, _), (next_rows, next_us) in pairwise(points):
        if rows < _TILE_ROWS < next_rows:
            knees.insert(knees.index((next_rows, next_us)), (_TILE_ROWS, next_us))
    return knees
