"""What an engine's drafts came to between two looks at its statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepinfer.engine.draft_calibration import DraftCalibration
from deepinfer.engine.stats import EngineStats


@dataclass(frozen=True, slots=True)
class DraftCounts:
    """Sums of one or more runs whose requests have one choice and all succeed.

    Attributes:
        num_tokens: tokens handed out.
        num_first_tokens: those that prefills gave: one a request.
        num_sequence_steps: decode steps, counted for each sequence in them.
        num_decode_steps, num_undrafted_steps: decode steps, and those without a draft pass behind them.
        num_verify_steps, num_verify_tokens: decode steps of a sequence that judged drafts, and their tokens.
        num_verified, num_accepted: drafts in them, and those that became tokens.
        verified_at, accepted_at: these two by position.
        calibration: of the judged drafts.
    """

    num_tokens: int
    num_first_tokens: int
    num_sequence_steps: int
    num_decode_steps: int
    num_undrafted_steps: int
    num_verify_steps: int
    num_verify_tokens: int
    num_verified: int
    num_accepted: int
    verified_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    calibration: DraftCalibration

    @classmethod
    def between(cls, before: EngineStats, after: EngineStats) -> DraftCounts:
        """What was added."""
        num_verified = after.num_drafts_verified - before.num_drafts_verified
        return cls(
            num_tokens=after.num_generated_tokens - before.num_generated_tokens,
            num_first_tokens=after.num_requests - before.num_requests,
            num_sequence_steps=after.num_decode_tokens - before.num_decode_tokens - num_verified,
            num_decode_steps=after.num_decode_steps - before.num_decode_steps,
            num_undrafted_steps=after.num_undrafted_steps - before.num_undrafted_steps,
            num_verify_steps=after.num_verify_steps - before.num_verify_steps,
            num_verify_tokens=after.num_verify_tokens - before.num_verify_tokens,
            num_verified=num_verified,
            num_accepted=after.num_drafts_accepted - before.num_drafts_accepted,
            verified_at=_difference(after.verified_at, before.verified_at),
            accepted_at=_difference(after.accepted_at, before.accepted_at),
            calibration=after.draft_calibration - before.draft_calibration,
        )

    @property
    def tokens_per_verify_step(self) -> float | None:
        """Tokens that a verifying step of a sequence gave; None without any."""
        return self.num_verify_tokens / self.num_verify_steps if self.num_verify_steps else None

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens of a sequence in a decode step, verifying or not; 1 with drafts off."""
        num_tokens = self.num_tokens - self.num_first_tokens
        return num_tokens / self.num_sequence_steps if self.num_sequence_steps else None

    @property
    def verified_per_step(self) -> float | None:
        """Drafts of a sequence verified in a decode step."""
        return self.num_verified / self.num_sequence_steps if self.num_sequence_steps else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "tokens": self.num_tokens,
            "decode_steps": self.num_decode_steps,
            "undrafted_steps": self.num_undrafted_steps,
            "sequence_steps": self.num_sequence_steps,
            "tokens_per_step": self.tokens_per_step,
            "verify_steps": self.num_verify_steps,
            "verify_tokens": self.num_verify_tokens,
            "tokens_per_verify_step": self.tokens_per_verify_step,
            "verified_per_step": self.verified_per_step,
            "verified_at": list(self.verified_at),
            "accepted_at": list(self.accepted_at),
            "calibration": self.calibration.to_dict(),
        }


def _difference(after: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(late - early for late, early in zip(after, before, strict=True))
