"""Where a stop string ended a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopMatch:
    """The first completed stop string.

    Attributes:
        stop: the string.
        num_tokens: tokens generated when it was complete, the completing one included; later tokens are dropped.
        text_end: length of the text that is kept (behind the stop string when it is included, else before it).
    """

    stop: str
    num_tokens: int
    text_end: int
