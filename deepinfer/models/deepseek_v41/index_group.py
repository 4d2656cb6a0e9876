"""Sequences whose index keys are scored together."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.step_batch import StepBatch

KEY_BYTES_PER_GROUP = 32 * 2**20  # float32 keys of a group of several sequences
_SHORTEST = 64  # sequences of fewer entries count as this long
_PART_UNIT = 64  # entries of a part are a multiple of this: backends score in tiles


@dataclass(frozen=True, slots=True)
class IndexGroup:
    """One sequence, or several whose numbers of entries are alike. Tensors int64 on the model's device.

    Attributes:
        seqs: [G] sequences of the step.
        rows: [n] their rows.
        row_group: [n] index 0..G-1 of each row's sequence.
        num_entries: python int, entries of the longest of them.
    """

    seqs: torch.Tensor
    rows: torch.Tensor
    row_group: torch.Tensor
    num_entries: int

    @classmethod
    def build_all(cls, batch: StepBatch, ratio: int, key_bytes: int) -> tuple[IndexGroup, ...]:
        """Groups that cover every row once.

        Sequences go together when their numbers of entries, rounded up to a power of two, are equal and their keys
        (`key_bytes` per entry) stay below `KEY_BYTES_PER_GROUP`. So padding at most doubles what is read, and a long
        sequence costs its own length only.
        """
        by_size: dict[int, list[int]] = {}
        entries = [(start + length) // ratio for start, length in zip(batch.starts, batch.seq_lens_q, strict=True)]
        for seq, count in enumerate(entries):
            by_size.setdefault(1 << (max(count, _SHORTEST) - 1).bit_length(), []).append(seq)
        groups = []
        for size, seqs in by_size.items():
            most = max(1, KEY_BYTES_PER_GROUP // (size * key_bytes))
            groups += [cls._of(batch, seqs[i : i + most], entries) for i in range(0, len(seqs), most)]
        return tuple(groups)

    def key_parts(self, key_bytes: int) -> list[range]:
        """All entries, in parts whose keys (`key_bytes` an entry) stay below `KEY_BYTES_PER_GROUP`.

        Only a group of one sequence has several: the others were made to stay below it.
        """
        size = max(KEY_BYTES_PER_GROUP // key_bytes // _PART_UNIT, 1) * _PART_UNIT
        if self.seqs.shape[0] > 1 or self.num_entries <= size:
            return [range(self.num_entries)]
        return [range(begin, min(begin + size, self.num_entries)) for begin in range(0, self.num_entries, size)]

    @classmethod
    def _of(cls, batch: StepBatch, seqs: list[int], entries: list[int]) -> IndexGroup:
        device = batch.positions.device
        place = torch.full((len(entries),), -1, dtype=torch.int64)
        place[seqs] = torch.arange(len(seqs))
        of_row = place.to(device)[batch.row_seq]
        rows = torch.nonzero(of_row >= 0).squeeze(1)
        return cls(torch.tensor(seqs, device=device), rows, of_row[rows], max(entries[seq] for seq in seqs))
