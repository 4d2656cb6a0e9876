"""Sliding windows read and written where they lie: in the rings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.step_batch import StepBatch


@dataclass(frozen=True, slots=True)
class RingWindow:
    """Places in rings of R slots. Tensors int64 on the model's device. See `Windows`.

    The row at position p is written at place p % R of its slot before anybody reads. A sequence's n rows need the
    window_size - 1 positions before the first one and their own n: while that is at most R, no row takes the place of
    a position that another one looks at. A step of that kind needs neither a workspace nor a copy back.

    Attributes:
        units: [T] state slot that each row is stored in; -1 for a padding row, which is not.
        places: [T] place in the ring.
        window_index: [T, W] place slot * R + p % R of window offset j (position p - W + 1 + j) over all slots; -1
            before the first position that windows may look at.
    """

    units: torch.Tensor
    places: torch.Tensor
    window_index: torch.Tensor

    @staticmethod
    def fits(batch: StepBatch, window: int, ring: int) -> bool:
        """Whether a step of the host may do this: few rows of each sequence, none before its windows' start."""
        rows_fit = batch.lengths.max(initial=0) <= ring - window + 1
        return bool(rows_fit and np.all(batch.starts >= batch.window_starts))

    @classmethod
    def build(cls, batch: StepBatch, window: int, ring: int) -> RingWindow:
        """Same map for every layer of a step that `fits`."""
        seq = batch.row_seq
        slots, starts = device_arrays(batch.positions.device, batch.state_slots[seq], batch.window_starts[seq])
        seen = batch.positions.unsqueeze(1) + torch.arange(1 - window, 1, device=slots.device)
        index = torch.where(seen >= starts.unsqueeze(1), slots.unsqueeze(1) * ring + seen % ring, -1)
        return cls(slots, batch.positions % ring, index)

    @property
    def where(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Units and places of the step's rows, int64 [T] each."""
        return self.units, self.places

    def narrowed(self, window_index: torch.Tensor) -> RingWindow:
        """See `Windows`."""
        return replace(self, window_index=window_index)

    def open(self, ring: VectorCache) -> VectorCache:
        """The ring itself."""
        return ring

    def close(self, ring: VectorCache, opened: VectorCache) -> None:
        """Everything is in its place already."""
