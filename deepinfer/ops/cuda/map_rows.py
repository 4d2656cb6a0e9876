"""`map_rows` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.entry_places import EntryPlaces
from deepinfer.core.row_maps import RotaryTable, RowMaps
from deepinfer.core.step_geometry import StepGeometry
from deepinfer.ops import reference
from tilelang_ops.step import map_rows as kernels


def map_rows(
    batch: DecodeBatch,
    geometry: StepGeometry,
    ropes: tuple[RotaryTable, RotaryTable],
    vocab: tuple[torch.Tensor, int] | None,
) -> RowMaps:
    """See `Ops.map_rows`; more ratios than the kernel takes have the reference's form."""
    if len(geometry.entry_rings) > kernels.MAX_RATIOS:
        return reference.map_rows(batch, geometry, ropes, vocab)
    rows = batch.rows
    given = kernels.GivenRows(
        positions=rows.positions,
        slots=rows.state_slots,
        seqs=rows.seqs,
        first_blocks=rows.first_blocks,
        offsets=batch.offsets,
        block_ids=batch.block_ids,
    )
    grams = batch.ngram_ids if vocab is not None else batch.ngram_ids[:, :0]
    found = kernels.map_rows(given, _sizes(geometry), (*ropes[0], *ropes[1]), grams, vocab or (batch.block_ids, 0))
    numbers, slots, window_places, *columns = found.columns.unbind()
    return RowMaps(
        numbers=numbers,
        slots=slots,
        window_places=window_places,
        window_index=found.window_index,
        window_rope=_pair(found.ropes[0]),
        rope=_pair(found.ropes[1]),
        entries={
            ratio: _entries(columns[6 * i : 6 * i + 6], found.ropes[2 + i], found.everything[i])
            for i, (ratio, _) in enumerate(geometry.entry_rings)
        },
        ngrams=None if vocab is None else found.ngrams,
    )


def _entries(columns: list[torch.Tensor], rope: torch.Tensor, everything: torch.Tensor) -> EntryPlaces:
    num_visible, positions, blocks, places, carried, ring_places = columns
    return EntryPlaces(
        num_visible=num_visible,
        positions=positions,
        blocks=blocks,
        places=places,
        carried=carried,
        ring_places=ring_places,
        rope=_pair(rope),
        everything=everything if everything.shape[1] else None,
    )


def _sizes(geometry: StepGeometry) -> kernels.MapSizes:
    lists = tuple(geometry.topk if geometry.takes_all(ratio) else 0 for ratio, _ in geometry.entry_rings)
    return kernels.MapSizes(geometry.window, geometry.window_ring, geometry.block_size, geometry.entry_rings, lists)


def _pair(rope: torch.Tensor) -> RotaryTable:
    cos, sin = rope.unbind()
    return cos, sin
