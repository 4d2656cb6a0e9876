"""Times and counts of one request, and the modes it ran in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """Times are seconds of a monotonic clock; None for what never happened.

    Attributes:
        arrival_time: the request entered the engine.
        first_scheduled_time: its first prefill step started.
        first_token_time: its first token was sampled.
        finished_time: its last token was handed over.
        num_prompt_tokens: prompt length.
        num_generated_tokens: new tokens over all completions.
        num_preemptions: how often it was recomputed.
        seed: 64-bit seed it was sampled with.
        batch_invariant: the value in force.
        numerics: "official", "fp32-quant" or "fp32".
        backend: "reference", "cpu" or "cuda".
    """

    arrival_time: float | None = None
    first_scheduled_time: float | None = None
    first_token_time: float | None = None
    finished_time: float | None = None
    num_prompt_tokens: int = 0
    num_generated_tokens: int = 0
    num_preemptions: int = 0
    seed: int | None = None
    batch_invariant: bool | None = None
    numerics: str | None = None
    backend: str | None = None

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds from arrival to the first token."""
        if self.arrival_time is None or self.first_token_time is None:
            return None
        return self.first_token_time - self.arrival_time

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
