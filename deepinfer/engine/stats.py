"""What an engine has done so far, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from operator import add
from typing import Any

from deepinfer.engine.draft_calibration import DraftCalibration
from deepinfer.engine.recent_load import RecentLoad
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
        execute_seconds: the worker's part of it: launches and waits.
        device_seconds: time in which the device worked on steps (their forward passes and sampling).
        device_idle_seconds: time in which it waited for the host, inside steps and between them, while requests were
            unfinished. What callers do between steps counts.
        recent: tokens a second and the device's waits in the last seconds.
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
    device_seconds: float
    device_idle_seconds: float
    recent: RecentLoad

    @classmethod
    def total(cls, engines: Sequence[EngineStats]) -> EngineStats:
        """Of the replicas of one model: counts and times add up."""
        return cls(**{item.name: _sum([getattr(stats, item.name) for stats in engines]) for item in fields(cls)})

    @property
    def kv_use(self) -> float:
        """Share of the cache blocks that are taken, by sequences or saved prefixes."""
        return 1 - self.num_free_blocks / self.num_blocks if self.num_blocks else 0.0

    @property
    def acceptance(self) -> float | None:
        """Accepted of the verified drafts; None before the first."""
        return self.num_drafts_accepted / self.num_drafts_verified if self.num_drafts_verified else None

    @property
    def host_ms_per_step(self) -> float | None:
        """Milliseconds of a step that the host spends on its books: outside of launches and waits; None before the
        first step. With overlap the device works meanwhile.
        """
        return (self.step_seconds - self.execute_seconds) * 1e3 / self.num_steps if self.num_steps else None

    @property
    def host_gap_ms(self) -> float | None:
        """Milliseconds a step that the device waited for the host, on average; None before the first step."""
        return self.device_idle_seconds * 1e3 / self.num_steps if self.num_steps else None

    @property
    def device_idle_share(self) -> float | None:
        """Share of the device's time with unfinished requests in which it waited for the host; None before the first
        step.
        """
        total = self.device_seconds + self.device_idle_seconds
        return self.device_idle_seconds / total if total else None

    @property
    def tokens_per_verify_step(self) -> float | None:
        """Tokens that a verifying decode step gave on average; None before the first."""
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

    def load_line(self) -> str:
        """Present load and recent speed in one line, for the log."""
        parts = [f"{self.num_running} running", f"{self.num_waiting} waiting", f"KV {self.kv_use:.1%}"]
        recent = self.recent
        if recent.tokens_per_second is not None:
            parts.append(f"{recent.tokens_per_second:.1f} tokens/s")
        if self.acceptance is not None:
            parts.append(f"acceptance {self.acceptance:.1%}")
        if recent.host_gap_ms is not None and recent.device_idle_share is not None:
            parts += [f"host gap {recent.host_gap_ms:.3f} ms/step", f"device idle {recent.device_idle_share:.1%}"]
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; of the calibration its 15 equal bins and its error."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["draft_calibration"] = self.draft_calibration.to_dict()
        values |= {"cost": asdict(self.cost), "recent": asdict(self.recent)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _sum(values: list[Any]) -> Any:
    """Of the same field of several engines."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(sum(items) for items in zip(*values, strict=True))
    if isinstance(first, RecentLoad):
        return RecentLoad.total(values)
    return reduce(add, values)
