"""Where a decode step's rows find and leave the entries of one compression ratio."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class EntryPlaces:
    """Of T rows, each of which may complete an entry. Int64 [T] but for the last two. Filled by the `map_rows` op.

    Attributes:
        num_visible: complete groups at each row: floor((p + 1) / ratio).
        positions: position at which the row's group begins.
        blocks, places: where its entry goes; block -1: the row completes none.
        carried: place of the token before in the compressor's ring, slot * ring + position % ring; -1 for one that is
            in this step.
        ring_places: place of the row itself in that ring.
        rope: cos and sin of `positions`, float32 [T, r / 2].
        everything: [T, topk] numbers of all visible entries, -1 behind the last; None where a row may see more.
    """

    num_visible: torch.Tensor
    positions: torch.Tensor
    blocks: torch.Tensor
    places: torch.Tensor
    carried: torch.Tensor
    ring_places: torch.Tensor
    rope: tuple[torch.Tensor, torch.Tensor]
    everything: torch.Tensor | None
