"""What one rank's experts do in a layer of a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpertWork:
    """
    Attributes:
        awake: routed experts that get a token, on average.
        pairs: tokens times experts that the rank multiplies.
        rows: tokens of the shared expert.
    """

    awake: float
    pairs: float
    rows: float
