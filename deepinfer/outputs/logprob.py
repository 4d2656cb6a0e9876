"""One token's log-probability at one position."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

LOGPROB_FLOOR: Final = -9999.0  # what an impossible token reports (spec/decode.md 3.5), so that JSON never sees -inf


def finite_logprob(value: float) -> float:
    """`value` as a Python float, at least the floor; NaN becomes the floor too."""
    number = float(value)
    return LOGPROB_FLOOR if math.isnan(number) else max(number, LOGPROB_FLOOR)


@dataclass(frozen=True, slots=True)
class Logprob:
    """Natural log-probability of one token.

    Attributes:
        logprob: finite, >= -9999.0 (a token outside the distribution).
        rank: 1-based place among all tokens, ties by lower id; 0 when not known.
        decoded_token: text of the token alone; None without a tokenizer.
    """

    logprob: float
    rank: int
    decoded_token: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {"logprob": self.logprob, "rank": self.rank, "decoded_token": self.decoded_token}
