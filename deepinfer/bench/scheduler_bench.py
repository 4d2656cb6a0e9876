"""What a decode step costs the scheduler, measured through its Python binding."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from deepinfer._C import Scheduler, SchedulerConfig, SequenceSpec, StepPlan
from deepinfer.bench.spread import Spread

_BLOCK_SIZE: Final = 128
_PROMPT_LEN: Final = 128
_NUM_LOOKBACK: Final = 2
_WARM_UP_STEPS: Final = 20


@dataclass(frozen=True, slots=True)
class SchedulerTimes:
    """Seconds of a steady decode step in which all sequences take part.

    Attributes:
        num_seqs, num_drafts: running sequences, and most drafts of each in a step.
        num_steps: timed steps.
        step: schedule plus update.
        schedule, update: its two parts.
    """

    num_seqs: int
    num_drafts: int
    num_steps: int
    step: Spread
    schedule: Spread
    update: Spread

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe, in microseconds; the step's own figures stand at the top."""
        return {
            "num_seqs": self.num_seqs,
            "num_drafts": self.num_drafts,
            "num_steps": self.num_steps,
            **self.step.to_dict("us", 1e6),
            "schedule": self.schedule.to_dict("us", 1e6),
            "update": self.update.to_dict("us", 1e6),
        }


def time_scheduler(num_seqs: int, num_drafts: int, num_steps: int) -> SchedulerTimes:
    """Decode `num_steps` steps of sequences that never end; nothing is computed, tokens and drafts are made up.

    What the caller does between the two calls (making the arrays of tokens) is not counted.
    """
    scheduler = _running_scheduler(num_seqs, num_drafts, _WARM_UP_STEPS + num_steps)
    random = np.random.default_rng(0)
    schedules, updates = [], []
    for _ in range(_WARM_UP_STEPS + num_steps):
        began = time.perf_counter()
        plan = scheduler.schedule()
        schedules.append(time.perf_counter() - began)
        arguments = _made_up(plan, num_drafts, random)
        began = time.perf_counter()
        scheduler.update(plan.step_id, *arguments)
        updates.append(time.perf_counter() - began)
    schedules, updates = schedules[_WARM_UP_STEPS:], updates[_WARM_UP_STEPS:]
    steps = [schedule + update for schedule, update in zip(schedules, updates, strict=True)]
    return SchedulerTimes(num_seqs, num_drafts, num_steps, Spread.of(steps), Spread.of(schedules), Spread.of(updates))


def _running_scheduler(num_seqs: int, num_drafts: int, num_steps: int) -> Scheduler:
    """A scheduler whose sequences all decode and have room for `num_steps` steps."""
    max_len = _PROMPT_LEN + (num_steps + 2) * (1 + num_drafts)
    config = SchedulerConfig(
        num_blocks=num_seqs * -(-max_len // _BLOCK_SIZE),
        block_size=_BLOCK_SIZE,
        num_state_slots=num_seqs,
        max_num_seqs=num_seqs,
        max_num_batched_tokens=num_seqs * max(_PROMPT_LEN, 1 + num_drafts),
        max_prefill_chunk=_PROMPT_LEN,
        max_model_len=max_len,
        num_lookback=_NUM_LOOKBACK,
        num_drafts=num_drafts,
    )
    scheduler = Scheduler(config)
    prompt = np.arange(_PROMPT_LEN, dtype=np.int32)
    for seq_id in range(num_seqs):
        scheduler.add(SequenceSpec(seq_id, prompt, max_len - _PROMPT_LEN, np.zeros(1, np.int32)))
    random = np.random.default_rng(1)
    while scheduler.num_waiting:
        plan = scheduler.schedule()
        scheduler.update(plan.step_id, *_made_up(plan, num_drafts, random))
    return scheduler


_Arguments = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


def _made_up(plan: StepPlan, num_drafts: int, random: np.random.Generator) -> _Arguments:
    """Tokens, their prefix sums, drafts and confidences of a step in which drafts are accepted up to a random one."""
    counts = 1 + random.integers(0, plan.num_drafts + 1)
    cu_tokens = np.zeros(plan.num_seqs + 1, dtype=np.int32)
    np.cumsum(counts, out=cu_tokens[1:])
    tokens = np.ones(cu_tokens[-1], dtype=np.int32)
    accepted = np.repeat(counts - 1, counts)
    offsets = np.arange(len(tokens)) - np.repeat(cu_tokens[:-1], counts)
    rows = np.repeat(plan.cu_seqlens_q[1:] - 1 - plan.num_drafts, counts) + offsets + 1
    tokens[offsets < accepted] = plan.token_ids[rows[offsets < accepted]]
    if not num_drafts:
        return tokens, cu_tokens, None, None
    drafts = np.full((plan.num_seqs, num_drafts), 2, dtype=np.int32)
    return tokens, cu_tokens, drafts, np.full(drafts.shape, 0.5, dtype=np.float32)
