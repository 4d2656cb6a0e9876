"""How fast a job of a model ran on a machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobSpeed:
    """Of a model on a machine.

    Attributes:
        prefill, decode: prompt tokens a second of prefill steps, new tokens a second of decode steps.
        new_share: new tokens, as a share of those that max_tokens allowed.
    """

    prefill: float
    decode: float
    new_share: float
