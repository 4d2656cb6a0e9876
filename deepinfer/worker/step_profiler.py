"""Times decode-like steps and draft passes on scratch cache space, before the first request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from deepinfer.core.device_clock import DeviceClock
from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.step_executor import StepExecutor
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.static_executor import StaticExecutor

if TYPE_CHECKING:  # it loads kernels
    from deepinfer.worker.static_sampler import StaticSampler

_STRIDE = 7919  # a prime: spreads token ids, and with them experts and Engram rows


@dataclass(frozen=True, slots=True)
class ScratchSpace:
    """What steps may use while no request runs.

    Attributes:
        num_blocks, num_slots: cache units.
        block_size: tokens per block.
        max_model_len: positions.
        context_len: tokens that every sequence pretends to have, as far as blocks and positions allow; what the caches
            hold there does not matter.
        num_lookback: tokens before a sequence's first row that a plan names.
    """

    num_blocks: int
    num_slots: int
    block_size: int
    max_model_len: int
    context_len: int
    num_lookback: int


class StepProfiler:
    """Runs the model as a decode step would: sequences with a newest token and drafts behind it.

    All sequences read and write the same blocks, each has a state slot of its own. Nothing of it stays: caches are
    addressed by position, and whatever is written here is written again before a request reads it.

    Args:
        target, draft: who runs the target and its draft model.
        space: what may be used.
        num_drafts: drafts of a sequence.
        device: where it runs.
        static: runs draft passes behind decode steps where the host does not.
    """

    def __init__(
        self,
        target: StepExecutor,
        draft: DraftExecutor,
        space: ScratchSpace,
        num_drafts: int,
        device: torch.device,
        static: StaticSampler | None = None,
    ) -> None:
        self._static = static
        self._target = target
        self._draft = draft
        self._space = space
        self._num_drafts = num_drafts
        self._clock = DeviceClock(device)
        room = min(space.max_model_len, space.num_blocks * space.block_size) - num_drafts - 1
        self._context_len = max(0, min(space.context_len, room))

    @property
    def max_seqs(self) -> int:
        """Sequences that a step can have."""
        return self._space.num_slots

    @property
    def max_rows(self) -> int:
        """Rows that a target step can have."""
        return self.max_seqs * (1 + self._num_drafts)

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """What rows of target steps are padded to; empty: they are not."""
        return self._target.row_sizes if isinstance(self._target, StaticExecutor) else ()

    def step_ms(self, num_rows: int) -> float:
        """Milliseconds of the target's forward pass over num_rows (1 .. max_rows) rows, 1 + drafts a sequence."""
        plan = self._plan(num_rows)
        begin = self._clock.mark()
        self._target.forward(plan, np.arange(num_rows))
        return self._clock.ms(begin, self._clock.mark())

    def draft_ms(self, num_seqs: int) -> float:
        """Milliseconds of a draft pass for num_seqs (1 .. max_seqs) sequences, with the sequential head."""
        if self._static is not None:
            return self._static_draft_ms(num_seqs, self._static)
        previous = self._token_ids(num_seqs).astype(np.int64)
        slots = list(range(num_seqs))
        requests = DraftRequests(
            slots, previous.tolist(), [max(self._context_len - 1, 0)] * num_seqs, slots, [0] * num_seqs
        )
        begin = self._clock.mark()
        self._draft.run(requests, self._num_drafts)
        for k in range(self._num_drafts):
            logits, _ = self._draft.adjust(k, previous)
            previous = np.asarray(torch.as_tensor(logits).argmax(dim=1).cpu())
        return self._clock.ms(begin, self._clock.mark())

    def _static_draft_ms(self, num_seqs: int, static: StaticSampler) -> float:
        self._target.forward(self._plan_of([1] * num_seqs), np.arange(num_seqs))
        chosen = static.assume(self._token_ids(num_seqs).tolist())
        begin = self._clock.mark()
        static.draft(chosen)
        return self._clock.ms(begin, self._clock.mark())

    def _token_ids(self, count: int) -> np.ndarray:
        return (np.arange(count, dtype=np.int64) * _STRIDE % self._target.vocab_size).astype(np.int32)

    def _plan(self, num_rows: int) -> ScratchPlan:
        per_seq = 1 + self._num_drafts
        num_seqs = -(-num_rows // per_seq)
        return self._plan_of([num_rows // num_seqs + (s < num_rows % num_seqs) for s in range(num_seqs)])

    def _plan_of(self, lengths: list[int]) -> ScratchPlan:
        """A decode plan of sequences with so many rows."""
        num_blocks = -(-(self._context_len + 1 + self._num_drafts) // self._space.block_size)
        return ScratchPlan.build(
            self._token_ids(sum(lengths)), lengths, self._context_len, num_blocks, self._space.num_lookback
        )
