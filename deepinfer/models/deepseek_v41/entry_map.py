"""Where compressed entries of a step's sequences live in the paged caches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.index_group import IndexGroup


@dataclass(frozen=True, slots=True)
class EntryMap:
    """Paging of one compression ratio in one step. Tensors int64 on the model's device.

    Attributes:
        ratio: tokens per entry.
        entries_per_block: block_size // ratio.
        block_ids: [B] block tables, one behind the other.
        first_blocks: [S] where each sequence's begins.
        row_seq: [T] sequence of each row.
        num_visible: [T] complete groups at each row: floor((p + 1) / ratio).
        max_visible: python int, largest num_visible of the step.
        new_rows: [n] rows that complete a group whose entry is not there yet.
        new_entries: [n] number of the entry that each of them completes.
        groups: sequences whose index keys are scored together.
    """

    ratio: int
    entries_per_block: int
    block_ids: torch.Tensor
    first_blocks: torch.Tensor
    row_seq: torch.Tensor
    num_visible: torch.Tensor
    max_visible: int
    new_rows: torch.Tensor
    new_entries: torch.Tensor
    groups: tuple[IndexGroup, ...]

    @classmethod
    def build(cls, batch: StepBatch, ratio: int, block_size: int, index_head_dim: int) -> EntryMap:
        """Same map for every layer of this ratio."""
        visible = (batch.positions + 1) // ratio
        completes = (batch.positions + 1) % ratio == 0
        if any(batch.entry_starts):
            firsts = torch.tensor(batch.entry_starts, dtype=torch.int64, device=batch.positions.device)
            completes &= batch.positions >= firsts[batch.row_seq]
        rows = torch.nonzero(completes).squeeze(1)
        ends = [start + length for start, length in zip(batch.starts, batch.seq_lens_q, strict=True)]
        return cls(
            ratio=ratio,
            entries_per_block=block_size // ratio,
            block_ids=batch.block_ids,
            first_blocks=batch.first_blocks,
            row_seq=batch.row_seq,
            num_visible=visible,
            max_visible=max(ends, default=0) // ratio,
            new_rows=rows,
            new_entries=batch.positions[rows] // ratio,
            groups=IndexGroup.build_all(batch, ratio, 4 * index_head_dim),
        )

    def store(self, cache: VectorCache, encoded: torch.Tensor) -> None:
        """Write the entries that this step completes, uint8 [n, bytes] in the order of `new_rows`."""
        block, offset = self._locate(self.row_seq[self.new_rows], self.new_entries)
        cache.data[block, offset] = encoded

    def gather_rows(self, cache: VectorCache, picks: torch.Tensor, rows: slice) -> torch.Tensor:
        """Bytes uint8 [n, K, bytes] of picked entries, picks int64 [n, K] of the rows in `rows`; -1 reads entry 0."""
        seq = self.row_seq[rows, None].expand_as(picks)
        block, offset = self._locate(seq, picks.clamp(min=0))
        return cache.data[block, offset]

    def gather_group(self, cache: VectorCache, group: IndexGroup, part: range) -> torch.Tensor:
        """Bytes uint8 [G, N, bytes] of the entries in `part`, N of them, of each of its sequences.

        Entries behind a sequence's own end are whatever some block holds; callers mask them by `num_visible`.
        """
        entries = torch.arange(part.start, part.stop, device=group.seqs.device).expand(group.seqs.shape[0], -1)
        block, offset = self._locate(group.seqs[:, None], entries)
        return cache.data[block, offset]

    def _locate(self, seq: torch.Tensor, entry: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place = self.first_blocks[seq] + entry // self.entries_per_block
        return self.block_ids[place.clamp(max=self.block_ids.shape[0] - 1)], entry % self.entries_per_block
