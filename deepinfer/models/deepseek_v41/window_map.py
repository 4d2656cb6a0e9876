"""Where each row of a step finds the keys of its sliding window."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_tensors import CacheTensors, VectorCache
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.ring_rows import RingRows


@dataclass(frozen=True, slots=True)
class WindowMap:
    """Gather and store maps over a workspace [history of seq 0 | rows of seq 0 | history of seq 1 | ...].

    The history of a sequence is its last min(context, window - 1) tokens, as far as windows may look back, read from
    the ring before anything is written. All tensors int64 on the model's device.

    Attributes:
        size: workspace vectors M.
        history_dest: [N] workspace index of each history vector.
        history_slot, history_position: [N] its state slot and absolute position.
        row_dest: [T] workspace index of each row of the step.
        window_index: [T, W] workspace index of window offset j (position p - W + 1 + j), -1 before the
            first position that windows may look at.
        kept: the rows that each ring (window or compressor) keeps, by its number of slots.
    """

    size: int
    history_dest: torch.Tensor
    history_slot: torch.Tensor
    history_position: torch.Tensor
    row_dest: torch.Tensor
    window_index: torch.Tensor
    kept: dict[int, RingRows]

    @classmethod
    def build(cls, batch: StepBatch, window: int, caches: CacheTensors) -> WindowMap:
        """Same map for every layer of a step."""
        device = batch.positions.device
        first_seen = torch.tensor(batch.window_starts, dtype=torch.int64, device=device)
        history = torch.clamp(batch.context_lens - first_seen, min=0, max=window - 1)
        row_counts = batch.cu_seqlens_q[1:] - batch.cu_seqlens_q[:-1]
        ends = torch.cumsum(history + row_counts, 0)
        row_base = ends - row_counts  # workspace index of each sequence's first row
        total = sum(batch.seq_lens_q) + sum(
            min(max(start - first, 0), window - 1)
            for start, first in zip(batch.starts, batch.window_starts, strict=True)
        )
        seq_of = torch.repeat_interleave(torch.arange(len(batch.starts), device=device), history)
        begin = torch.cumsum(history, 0) - history
        offset = torch.arange(seq_of.shape[0], device=device) - begin[seq_of]
        row_dest = row_base[batch.row_seq] + batch.positions - batch.context_lens[batch.row_seq]
        steps = torch.arange(1 - window, 1, device=device)
        index = row_dest[:, None] + steps
        is_seen = batch.positions[:, None] + steps >= first_seen[batch.row_seq, None]
        index = torch.where(is_seen, index, -1)
        return cls(
            size=total,
            history_dest=row_base[seq_of] - history[seq_of] + offset,
            history_slot=batch.state_slots[seq_of],
            history_position=batch.context_lens[seq_of] - history[seq_of] + offset,
            row_dest=row_dest,
            window_index=index,
            kept={ring: RingRows.build(batch, ring, first_seen) for ring in caches.ring_sizes},
        )

    def gather(self, cache: VectorCache, rows: torch.Tensor) -> torch.Tensor:
        """Workspace bytes uint8 [M, bytes] from the ring and this step's encoded rows uint8 [T, bytes]."""
        workspace = torch.empty((self.size, rows.shape[1]), dtype=torch.uint8, device=rows.device)
        ring = cache.num_entries
        workspace[self.history_dest] = cache.data[self.history_slot, self.history_position % ring]
        workspace[self.row_dest] = rows
        return workspace
