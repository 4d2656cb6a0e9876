"""What an engine has done so far, as one value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Totals since the engine was built, and its present load.

    Attributes:
        num_requests: requests that entered the engine.
        num_finished, num_failed, num_aborted: how they ended.
        num_waiting, num_running: sequences now; choices whose prompt is not computed yet are not counted.
        num_blocks, num_free_blocks: cache blocks.
        num_state_slots, num_free_state_slots: state slots.
        num_steps, num_prefill_steps, num_decode_steps: executed steps.
        num_prefill_tokens, num_decode_tokens: rows computed in them.
        num_recomputed_tokens: prefill rows computed again after a preemption.
        num_generated_tokens: tokens handed out, over all choices.
        num_forked: choices that began on their prompt's blocks instead of computing it again.
        num_preemptions: times a sequence lost its cache.
        num_verify_steps: decode steps that judged drafts, counted for each sequence.
        num_verify_tokens: tokens that these gave.
        num_drafts_verified, num_drafts_accepted: drafts judged in them, and those that became tokens.
        step_seconds: time inside steps.
        execute_seconds: the worker's part of it.
    """

    num_requests: int
    num_finished: int
    num_failed: int
    num_aborted: int
    num_waiting: int
    num_running: int
    num_blocks: int
    num_free_blocks: int
    num_state_slots: int
    num_free_state_slots: int
    num_steps: int
    num_prefill_steps: int
    num_decode_steps: int
    num_prefill_tokens: int
    num_decode_tokens: int
    num_recomputed_tokens: int
    num_generated_tokens: int
    num_forked: int
    num_preemptions: int
    num_verify_steps: int
    num_verify_tokens: int
    num_drafts_verified: int
    num_drafts_accepted: int
    step_seconds: float
    execute_seconds: float

    @property
    def tokens_per_verify_step(self) -> float | None:
        """Tokens that a verifying decode step gave on average (decisions 28); None before the first."""
        return self.num_verify_tokens / self.num_verify_steps if self.num_verify_steps else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)
