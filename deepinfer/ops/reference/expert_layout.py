"""Where the rows of a step go when they are sorted by expert into tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.ops.reference.matmul_grouped import TILE_ROWS


@dataclass(frozen=True, slots=True)
class ExpertLayout:
    """Tiles of 16 rows, each of one expert, experts ascending; experts without rows have no tile.

    Attributes:
        experts: int64 [active], ids that have rows, ascending.
        tiles_per_expert: tiles of each of them.
        slots: int64 [A], place 0 .. 16 * tiles - 1 of every assignment (row, rank), in assignment order.
    """

    experts: torch.Tensor
    tiles_per_expert: list[int]
    slots: torch.Tensor

    @classmethod
    def from_assignments(cls, expert_ids: torch.Tensor, num_experts: int) -> ExpertLayout:
        """Lay out assignments: int64 [A], the expert of each."""
        counts = torch.bincount(expert_ids, minlength=num_experts)
        tiles = (counts + (TILE_ROWS - 1)) // TILE_ROWS
        order = torch.argsort(expert_ids, stable=True)
        sorted_ids = expert_ids[order]
        # Slot = first slot of the expert's tiles + place among its assignments.
        shift = (tiles.cumsum(0) - tiles) * TILE_ROWS - (counts.cumsum(0) - counts)
        slots = torch.empty_like(expert_ids)
        slots[order] = torch.arange(expert_ids.shape[0], device=expert_ids.device) + shift[sorted_ids]
        return cls(tiles.nonzero().squeeze(1), [count for count in tiles.tolist() if count], slots)
