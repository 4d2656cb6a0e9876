"""How sure the draft model was of one draft, and whether it was right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DraftConfidence:
    """One draft that was compared with the token that came in its place.

    Attributes:
        output_index: index in `token_ids` of the token that it guessed.
        position: place in its block, 0 for the first draft.
        confidence: the draft model's probability, in [0, 1], that the draft is accepted given that those before it in
            its block are; after the temperatures of `speculative`.
        accepted: whether it became the token.
    """

    output_index: int
    position: int
    confidence: float
    accepted: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
