"""What an engine has done so far, as one value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from deepinfer.engine.draft_calibration import DraftCalibration
from deepinfer.worker.cost_totals import CostTotals


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
        num_drafts_verified, num_drafts_accepted: drafts in them, and those that became tokens.
        num_undrafted_steps: decode steps without a draft pass behind them, since drafts did not pay.
        verified_at, accepted_at: these two by the draft's position; empty with drafts off.
        draft_calibration: how far the confidence of drafts could be believed.
        cost: multiply-adds and bytes of all planned steps by the model's formulas; drafts as if all judged ones were
            accepted, logits of the rows that give tokens (prompt log-probabilities are not counted).
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
    num_undrafted_steps: int
    verified_at: tuple[int, ...]
    accepted_at: tuple[int, ...]
    draft_calibration: DraftCalibration
    cost: CostTotals
    step_seconds: float
    execute_seconds: float

    @property
    def tokens_per_verify_step(self) -> float | None:
        """Tokens that a verifying decode step gave on average (decisions 28); None before the first."""
        return self.num_verify_tokens / self.num_verify_steps if self.num_verify_steps else None

    @property
    def verified_per_step(self) -> float | None:
        """Drafts verified per sequence and verifying step, on average; None before the first."""
        return self.num_drafts_verified / self.num_verify_steps if self.num_verify_steps else None

    @property
    def accepted_share_at(self) -> tuple[float | None, ...]:
        """Accepted of the verified drafts, by position; None where none was verified."""
        pairs = zip(self.accepted_at, self.verified_at, strict=True)
        return tuple(accepted / verified if verified else None for accepted, verified in pairs)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; of the calibration its 15 equal bins and its error."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["draft_calibration"] = self.draft_calibration.to_dict()
        values["cost"] = asdict(self.cost)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
