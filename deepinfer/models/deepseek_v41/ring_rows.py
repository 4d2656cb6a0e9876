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
        rows: rows of the step; None: all of them, in their order.
        slots: their state slots; -1 for padding.
        ring_slots: their places in the ring.
    """

    rows: torch.Tensor | None
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
        device, slots, ring_slots = batch.positions.device, batch.state_slots[seq[rows]], positions[rows] % ring
        if len(rows) == len(positions):
            return cls(None, *device_arrays(device, slots, ring_slots))
        return cls(*device_arrays(device, rows, slots, ring_slots))

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """The kept rows of `values` [T, ...]."""
        return values if self.rows is None else values[self.rows]

    def store(self, ring: torch.Tensor, values: torch.Tensor) -> None:
        """Write the kept rows of `values` [T, ...] into `ring` [slots, ring, ...].

        Padding goes to the last slot, which is nobody's where there is padding (`allocate_caches`).
        """
        ring[self.slots, self.ring_slots] = self.of(values)
