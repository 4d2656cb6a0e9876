"""What a decode step's rows need of caches and tables, made once for all layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.entry_places import EntryPlaces

RotaryTable = tuple[torch.Tensor, torch.Tensor]  # cos and sin, float32 [positions, r / 2]


@dataclass(frozen=True, slots=True)
class RowMaps:
    """Of T rows; int64 on the model's device, but for the rotary rows. Filled by the `map_rows` op.

    Attributes:
        numbers: [T] 0, 1, ...
        slots: [T] state slot; -1 for padding, of which nothing is stored.
        window_places: [T] place in the window rings.
        window_index: [T, W] place slot * ring + p % ring of window offset j (position p - W + 1 + j) over all slots; -1
            before the start of the text.
        window_rope, rope: cos and sin, float32 [T, r / 2], of the rows' positions in the tables of the layers without
            and with compressed entries.
        entries: by compression ratio.
        ngrams: [T, n] compressed ids of each row's token and its predecessors; None without Engram.
    """

    numbers: torch.Tensor
    slots: torch.Tensor
    window_places: torch.Tensor
    window_index: torch.Tensor
    window_rope: tuple[torch.Tensor, torch.Tensor]
    rope: tuple[torch.Tensor, torch.Tensor]
    entries: dict[int, EntryPlaces]
    ngrams: torch.Tensor | None
