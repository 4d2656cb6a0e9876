"""Where a decode step's rows find and leave things: the maps that all layers read."""

from __future__ import annotations

import torch

from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.entry_places import EntryPlaces
from deepinfer.core.row_maps import RotaryTable, RowMaps
from deepinfer.core.selection import Selection
from deepinfer.core.step_geometry import StepGeometry


def map_rows(
    batch: DecodeBatch,
    geometry: StepGeometry,
    ropes: tuple[RotaryTable, RotaryTable],
    vocab: tuple[torch.Tensor, int] | None,
) -> RowMaps:
    """Maps of rows that were made on the device. No shape depends on a value, and nothing waits for the device.

    Args:
        batch: T rows.
        geometry: of the caches.
        ropes: (cos, sin), float32 [positions, r / 2] each, of layers without and with compressed entries.
        vocab: Engram's map of tokens int64 [V] and the token that stands for none; None without Engram.
    """
    rows, positions = batch.rows, batch.positions
    numbers = torch.arange(batch.num_rows, device=positions.device)
    return RowMaps(
        numbers=numbers,
        slots=torch.where(rows.seqs >= 0, rows.state_slots, -1),
        window_places=positions % geometry.window_ring,
        window_index=_window_index(batch, geometry),
        window_rope=_rope(ropes[0], positions),
        rope=_rope(ropes[1], positions),
        entries={ratio: _entries(batch, geometry, (ratio, ring), ropes[1]) for ratio, ring in geometry.entry_rings},
        ngrams=None if vocab is None else _ngrams(batch.ngram_ids, *vocab),
    )


def _window_index(batch: DecodeBatch, geometry: StepGeometry) -> torch.Tensor:
    """Whole windows, as every decode step sees them."""
    positions, slots = batch.positions, batch.rows.state_slots
    seen = positions.unsqueeze(1) + torch.arange(1 - geometry.window, 1, device=positions.device)
    return torch.where(seen >= 0, slots.unsqueeze(1) * geometry.window_ring + seen % geometry.window_ring, -1)


def _rope(table: RotaryTable, positions: torch.Tensor) -> RotaryTable:
    cos, sin = table
    return cos[positions], sin[positions]


def _entries(batch: DecodeBatch, geometry: StepGeometry, sizes: tuple[int, int], table: RotaryTable) -> EntryPlaces:
    """Every row is a candidate for a new entry: their number must not depend on positions."""
    (ratio, ring), rows, positions = sizes, batch.rows, batch.positions
    entries, per_block, num_visible = positions // ratio, geometry.block_size // ratio, (positions + 1) // ratio
    completes = ((positions + 1) % ratio == 0) & (rows.seqs >= 0)
    blocks = batch.block_ids[rows.first_blocks + entries // per_block]
    before = rows.state_slots * ring + (positions - 1) % ring
    takes_all = geometry.takes_all(ratio)
    return EntryPlaces(
        num_visible=num_visible,
        positions=entries * ratio,
        blocks=torch.where(completes, blocks, -1),
        places=entries % per_block,
        carried=torch.where(batch.offsets > 0, -1, before),
        ring_places=positions % ring,
        rope=_rope(table, entries * ratio),
        everything=Selection.all_visible(num_visible, geometry.topk) if takes_all else None,
    )


def _ngrams(ids: torch.Tensor, vocab: torch.Tensor, pad_token_id: int) -> torch.Tensor:
    """Compressed ids of n-grams in which -1 is no token."""
    return torch.where(ids >= 0, vocab[ids.clamp(min=0)], vocab[pad_token_id])
