"""What one run of a worker may use before it stops."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.errors import JobError


@dataclass(frozen=True, slots=True)
class JobBudget:
    """Limits of this run alone; None: no limit. What is left can be done by another run.

    Attributes:
        tokens: prompt and generated tokens of rows that ended.
        minutes: since the worker began, its loading time not counted.
        failures: rows that failed.
    """

    tokens: int | None = None
    minutes: float | None = None
    failures: int | None = None

    def __post_init__(self) -> None:
        for name in ("tokens", "minutes", "failures"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise JobError(f"the budget of {name} is {value}; expected 0 or more")

    def used_up(self, tokens: int, seconds: float, failures: int) -> str | None:
        """What is used up, in words; None when all goes on.

        Args:
            tokens, failures: so far.
            seconds: since the beginning.
        """
        if self.tokens is not None and tokens >= self.tokens:
            return f"the budget of {self.tokens:,} tokens is used up"
        if self.minutes is not None and seconds >= 60 * self.minutes:
            return f"the budget of {self.minutes:g} minutes is used up"
        if self.failures is not None and failures > self.failures:
            return f"{failures:,} rows have failed, more than the {self.failures:,} that may"
        return None
