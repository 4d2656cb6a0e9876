"""How a run of a worker ended, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.batch.merged_results import MergedResults


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a run of a worker ended.

    Attributes:
        results: of the complete job; None when something is left.
        reason: why something is left, in words.
    """

    results: MergedResults | None
    reason: str | None = None
