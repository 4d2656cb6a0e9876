"""What a request must fit into."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Filled from the resolved engine config and the scheduler.

    Attributes:
        max_model_len: prompt and output tokens of one sequence.
        capacity_tokens: tokens that the whole cache holds.
        max_prompt_len: prompt tokens of one step when chunked prefill is off; None otherwise.
        yoco_mode: unless "off", not every prompt token has a row in the last layer, so none can be scored.
    """

    max_model_len: int
    capacity_tokens: int
    max_prompt_len: int | None = None
    yoco_mode: str = "off"
