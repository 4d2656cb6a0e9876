"""Sequences whose index keys are scored together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays

KEY_BYTES_PER_GROUP = 32 * 2**20  # float32 keys of a group of several sequences
_SHORTEST = 64  # sequences of fewer entries count as this long
_PART_UNIT = 64  # entries of a part are a multiple of this: backends score in tiles


@dataclass(frozen=True, slots=True)
class IndexGroup:
    """One sequence, or several whose numbers of entries are alike. Tensors int64 on the rows' device.

    Attributes:
        first_block: [G] where the block tables of its sequences begin.
        rows: [n] their rows.
        row_group: [n] index 0..G-1 of each row's sequence.
        num_entries: python int, most entries that one of these rows sees.
    """

    first_block: torch.Tensor
    rows: torch.Tensor
    row_group: torch.Tensor
    num_entries: int = field(kw_only=True)

    @classmethod
    def build_all(cls, first_block: torch.Tensor, num_visible: torch.Tensor, key_bytes: int) -> tuple[IndexGroup, ...]:
        """Groups that cover every row once; waits for the device.

        Sequences go together when their numbers of entries, rounded up to a power of two, are equal and their keys
        (`key_bytes` per entry) stay below `KEY_BYTES_PER_GROUP`. So padding at most doubles what is read, and a long
        sequence costs its own length only.

        Args:
            first_block: int64 [T] table of each row; rows with the same one are of one sequence.
            num_visible: int64 [T] entries that each row sees.
            key_bytes: of one entry.
        """
        tables, row_seq = np.unique(first_block.cpu().numpy(), return_inverse=True)
        entries = np.zeros(len(tables), dtype=np.int64)
        np.maximum.at(entries, row_seq, num_visible.cpu().numpy())
        by_size: dict[int, list[int]] = {}
        for seq, count in enumerate(entries.tolist()):
            by_size.setdefault(1 << (max(count, _SHORTEST) - 1).bit_length(), []).append(seq)
        groups = []
        for size, seqs in by_size.items():
            most = max(1, KEY_BYTES_PER_GROUP // (size * key_bytes))
            for begin in range(0, len(seqs), most):
                part = np.array(seqs[begin : begin + most])
                place = np.full(len(tables), -1)
                place[part] = np.arange(len(part))
                rows = np.flatnonzero(place[row_seq] >= 0)
                of_group = device_arrays(first_block.device, tables[part], rows, place[row_seq[rows]])
                groups.append(cls(*of_group, num_entries=int(entries[part].max())))
        return tuple(groups)

    def key_parts(self, key_bytes: int) -> list[range]:
        """All entries, in parts whose keys (`key_bytes` an entry) stay below `KEY_BYTES_PER_GROUP`.

        Only a group of one sequence has several: the others were made to stay below it.
        """
        size = max(KEY_BYTES_PER_GROUP // key_bytes // _PART_UNIT, 1) * _PART_UNIT
        if self.first_block.shape[0] > 1 or self.num_entries <= size:
            return [range(self.num_entries)]
        return [range(begin, min(begin + size, self.num_entries)) for begin in range(0, self.num_entries, size)]
