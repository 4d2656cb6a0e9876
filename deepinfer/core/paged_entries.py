"""Compressed entries as a step's rows see them: a paged cache and each row's block table."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_tensors import VectorCache


@dataclass(frozen=True, slots=True)
class PagedEntries:
    """Entry n of row t lives in block ``block_ids[first_block[t] + n // epb]`` at place ``n % epb``, epb to a block.

    Filled by the model from the step's geometry; read by `select_entries` and `sparse_attention`.

    Attributes:
        cache: main entries or index keys; data uint8 [blocks, epb, bytes].
        block_ids: int64 [B] block tables, one behind the other.
        first_block: int64 [T] where the table of each row's sequence begins. Rows of one sequence, and only
            they, have the same.
    """

    cache: VectorCache
    block_ids: torch.Tensor
    first_block: torch.Tensor

    def gather(self, first_block: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Bytes uint8 [..., bytes] of entries by number, int64 [...] from 0, of the tables that begin at `first_block`.

        `first_block` int64 has a shape that broadcasts to that of `numbers`. Entries behind a table's end are whatever
        some block holds: a caller masks them.
        """
        size = self.cache.num_entries
        place = (first_block + numbers // size).clamp(max=self.block_ids.shape[0] - 1)
        return self.cache.data[self.block_ids[place], numbers % size]
