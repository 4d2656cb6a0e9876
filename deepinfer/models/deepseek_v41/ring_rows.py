"""Which rows of a step stay in a ring of state slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
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
    def build(cls, batch: StepBatch, ring: int) -> RingRows:
        """A chunk longer than the ring keeps its last `ring` rows, so no slot is written twice.

        Rows before the first position that windows may look at are not kept.
        """
        seq, positions = batch.row_seq, batch.row_positions
        oldest = np.maximum(batch.starts + batch.lengths - ring, batch.window_starts)
        rows = np.flatnonzero(positions >= oldest[seq])
        return cls(*device_arrays(batch.positions.device, rows, batch.state_slots[seq[rows]], positions[rows] % ring))

    def store(self, ring: torch.Tensor, values: torch.Tensor) -> None:
        """Write the kept rows of `values` [T, ...] into `ring` [slots, ring, ...]."""
        ring[self.slots, self.ring_slots] = values[self.rows]
