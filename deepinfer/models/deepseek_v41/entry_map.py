"""Where compressed entries of a step's sequences live in the paged caches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.paged_entries import PagedEntries
from deepinfer.core.row_maps import RowMaps
from deepinfer.core.selection import Selection
from deepinfer.core.step_batch import StepBatch


@dataclass(frozen=True, slots=True)
class EntryMap:
    """Paging of one compression ratio in one step. Tensors int64 on the model's device.

    Attributes:
        block_ids: [B] block tables, one behind the other.
        first_block: [T] where the table of each row's sequence begins.
        num_visible: [T] complete groups at each row: floor((p + 1) / ratio).
        max_visible: python int, largest num_visible of the step, or more.
        new_rows: [n] rows that may complete a group whose entry is not there yet.
        new_positions: [n] position at which the entry that each of them completes begins.
        new_blocks, new_places: [n] where that entry goes; block -1: nothing is completed.
        carried: [n] place of the token before in the compressor's ring, slot * ring + position % ring; -1 for one
            that is in this step.
        everything: [T, topk] numbers of all visible entries, if they are known already.
    """

    block_ids: torch.Tensor
    first_block: torch.Tensor
    num_visible: torch.Tensor
    max_visible: int
    new_rows: torch.Tensor
    new_positions: torch.Tensor
    new_blocks: torch.Tensor
    new_places: torch.Tensor
    carried: torch.Tensor
    everything: torch.Tensor | None = None

    @classmethod
    def build(cls, batch: StepBatch, ratio: int, block_size: int, ring: int) -> EntryMap:
        """Same map for every layer of this ratio; `ring` is the number of slots of its compressors (1 at ratio 1)."""
        seq, positions = batch.row_seq, batch.row_positions
        visible = (positions + 1) // ratio
        rows = np.flatnonzero(((positions + 1) % ratio == 0) & (positions >= batch.entry_starts[seq]))
        new_seq, before = seq[rows], positions[rows] - 1
        entries, per_block = positions[rows] // ratio, block_size // ratio
        carried = batch.state_slots[new_seq] * ring + before % ring
        arrays = (
            batch.first_blocks[seq],
            visible,
            rows,
            entries * ratio,
            batch.first_blocks[new_seq] + entries // per_block,
            entries % per_block,
            np.where(before < batch.starts[new_seq], carried, -1),
        )
        first_block, num_visible, new_rows, new_positions, tables, places, kept = device_arrays(
            batch.positions.device, *arrays
        )
        return cls(
            block_ids=batch.block_ids,
            first_block=first_block,
            num_visible=num_visible,
            max_visible=int(visible.max(initial=0)),
            new_rows=new_rows,
            new_positions=new_positions,
            new_blocks=batch.block_ids[tables],
            new_places=places,
            carried=kept,
        )

    @classmethod
    def of_decode(cls, batch: DecodeBatch, maps: RowMaps, ratio: int) -> EntryMap:
        """The same of rows made on the device, of which every one is a candidate: their number must not depend on
        positions.
        """
        places = maps.entries[ratio]
        return cls(
            block_ids=batch.block_ids,
            first_block=batch.rows.first_blocks,
            num_visible=places.num_visible,
            max_visible=batch.max_len // ratio,
            new_rows=maps.numbers,
            new_positions=places.positions,
            new_blocks=places.blocks,
            new_places=places.places,
            carried=places.carried,
            everything=places.everything,
        )

    def all_visible(self, topk: int) -> torch.Tensor:
        """Numbers int64 [T, topk] of all that rows see, where that is at most `topk`; -1 behind the last."""
        return Selection.all_visible(self.num_visible, topk) if self.everything is None else self.everything

    def of(self, cache: VectorCache) -> PagedEntries:
        """The entries of a cache of this ratio, as the rows of this step see them."""
        return PagedEntries(cache, self.block_ids, self.first_block)
