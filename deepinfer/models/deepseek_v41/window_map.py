"""Sliding windows of a step that has more rows of a sequence than its ring has slots to spare."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.ring_rows import RingRows


@dataclass(frozen=True, slots=True)
class WindowMap:
    """Gather and store maps over a workspace [history of seq 0 | rows of seq 0 | history of seq 1 | ...].

    The history of a sequence is its last min(context, window - 1) tokens, as far as windows may look back, read from
    the ring before anything is written. All tensors int64 on the model's device. See `Windows`.

    Attributes:
        size: workspace vectors M.
        history_dest: [N] workspace index of each history vector.
        history_slot, history_position: [N] its state slot and absolute position.
        row_dest: [T] workspace index of each row of the step.
        row_place: [T] zeros: a workspace is a cache of units with one entry.
        window_index: [T, W] workspace index of window offset j (position p - W + 1 + j), -1 before the
            first position that windows may look at.
        kept: the rows that the rings keep.
    """

    size: int
    history_dest: torch.Tensor
    history_slot: torch.Tensor
    history_position: torch.Tensor
    row_dest: torch.Tensor
    row_place: torch.Tensor
    window_index: torch.Tensor
    kept: RingRows

    @classmethod
    def build(cls, batch: StepBatch, window: int, kept: RingRows) -> WindowMap:
        """Same map for every layer of a step."""
        seq, positions = batch.row_seq, batch.row_positions
        history = np.clip(batch.starts - batch.window_starts, 0, window - 1)
        ends = np.cumsum(history + batch.lengths)
        first_rows = ends - batch.lengths  # workspace index of each sequence's first row
        of = np.repeat(np.arange(len(history)), history)
        back = np.repeat(np.cumsum(history), history) - np.arange(len(of))  # how far before the first row
        row_dest = first_rows[seq] + positions - batch.starts[seq]
        history_dest, slot, position, dest, num_seen = device_arrays(
            batch.positions.device,
            first_rows[of] - back,
            batch.state_slots[of],
            batch.starts[of] - back,
            row_dest,
            positions - batch.window_starts[seq],
        )
        steps = torch.arange(1 - window, 1, device=dest.device)
        return cls(
            size=int(ends[-1]) if len(ends) else 0,
            history_dest=history_dest,
            history_slot=slot,
            history_position=position,
            row_dest=dest,
            row_place=torch.zeros_like(dest),
            window_index=torch.where(num_seen[:, None] + steps >= 0, dest[:, None] + steps, -1),
            kept=kept,
        )

    @property
    def where(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Units and places of the step's rows, int64 [T] each."""
        return self.row_dest, self.row_place

    def narrowed(self, window_index: torch.Tensor) -> WindowMap:
        """See `Windows`."""
        return replace(self, window_index=window_index)

    def open(self, ring: VectorCache) -> VectorCache:
        """A workspace with the history from the ring."""
        workspace = ring.data.new_empty((self.size, 1, ring.data.shape[2]))
        workspace[self.history_dest, 0] = ring.data[self.history_slot, self.history_position % ring.num_entries]
        return VectorCache(workspace, ring.format)

    def close(self, ring: VectorCache, workspace: VectorCache) -> None:
        """Keep in the ring what later steps need."""
        self.kept.store(ring.data, workspace.data[self.row_dest, 0])
