"""One measured call of an op."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpPoint:
    """
    Attributes:
        rows: of the step it was a part of.
        us: median microseconds.
        num_bytes: operands and results, each once; of experts the chosen ones.
        multiply_adds: 0 for an op without products.
    """

    rows: int
    us: float
    num_bytes: float
    multiply_adds: float
