"""One copy of an expert's weights from place to place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ExpertMove:
    """
    Attributes:
        expert: logical number.
        source: physical place that is read; rank source // slots_per_rank owns it.
        target: physical place that is written.
    """

    expert: int
    source: int
    target: int
