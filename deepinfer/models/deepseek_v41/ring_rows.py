"""Which rows of a step stay in a ring of state slots."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.step_batch import StepBatch


@dataclass(frozen=True, slots=True)
class RingRows:
    """Rows that a ring keeps after this step, int64 [n] each; made once per step and ring size.

    Attributes:
        rows: rows of the step.
        slots: their state slots.
        ring_slots: their places in the ring.
    """

    rows: torch.Tensor
    slots: torch.Tensor
    ring_slots: torch.Tensor

    @classmethod
    def build(cls, batch: StepBatch, ring: int, first_seen: torch.Tensor) -> RingRows:
        """A chunk longer than the ring keeps its last `ring` rows, so no slot is written twice.

        first_seen: int64 [S] first position that windows may look at; rows before it are not kept.
        """
        last = (batch.context_lens + batch.cu_seqlens_q[1:] - batch.cu_seqlens_q[:-1])[batch.row_seq]
        oldest = torch.maximum(last - ring, first_seen[batch.row_seq])
        rows = torch.nonzero(batch.positions >= oldest).squeeze(1)
        return cls(rows, batch.state_slots[batch.row_seq[rows]], batch.positions[rows] % ring)

    def store(self, ring: torch.Tensor, values: torch.Tensor) -> None:
        """Write the kept rows of `values` [T, ...] into `ring` [slots, ring, ...]."""
        ring[self.slots, self.ring_slots] = values[self.rows]
