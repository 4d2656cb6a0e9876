"""Whether rows that ran again gave the same, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """What `verify_job` found.

    Attributes:
        num_checked: rows that ran again.
        differing: numbers of those whose result is another one now.
        results_are_whole: whether the merged results are byte by byte what was merged; None before they are.
    """

    num_checked: int
    differing: tuple[int, ...]
    results_are_whole: bool | None

    @property
    def is_good(self) -> bool:
        """Whether nothing differs."""
        return not self.differing and self.results_are_whole is not False

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "is_good": self.is_good}
