"""The three ways to decode that are compared."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class DraftMode(StrEnum):
    """Whether drafts are made, and how many are verified."""

    OFF = "off"
    FIXED = "fixed"  # all of them
    SCHEDULED = "scheduled"  # as many as a cost curve says

    def options(self, num_drafts: int | None, cost_curve: Any, shared: dict[str, Any]) -> str | dict[str, Any]:
        """The `speculative` option of an engine in this mode.

        Args:
            num_drafts: None: as the checkpoint was trained.
            cost_curve: of SCHEDULED: "measure", a path or a mapping.
            shared: further fields of the two modes with drafts.
        """
        if self is DraftMode.OFF:
            return "off"
        drafts = {**shared, "num_drafts": num_drafts}
        if self is DraftMode.FIXED:
            return {**drafts, "varlen": False}
        return {**drafts, "varlen": True, "cost_curve": cost_curve}
