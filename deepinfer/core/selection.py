"""Which compressed entries the indexer chose for each row, and how clear the choice was."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Selection:
    """Filled by the `select_entries` op; read by the attention, later indexers and the research hooks.

    Attributes:
        picks: int64 [T, topk] entry numbers, ascending, -1 behind the last one.
        blocks: int64 [T, num_blocks] candidate blocks, ascending, -1 padded; None when none were wanted. What a row
            holds that takes all its entries is not defined.
        margin: float32 [T] gap of scores between the last chosen entry and the first rejected one; inf when none was
            rejected. None unless margins were asked for, as `block_margin`.
        block_margin: float32 [T] the same for the blocks; None when none were wanted.
    """

    picks: torch.Tensor
    blocks: torch.Tensor | None = None
    margin: torch.Tensor | None = None
    block_margin: torch.Tensor | None = None

    @staticmethod
    def all_visible(num_visible: torch.Tensor, topk: int) -> torch.Tensor:
        """Picks int64 [T, topk] of rows that see few enough entries to take them all: 0 .. num_visible-1, -1 padded.

        num_visible: int64 [T]; of a row that sees more than `topk` the first `topk`.
        """
        numbers = torch.arange(topk, device=num_visible.device)
        return torch.where(numbers < num_visible[:, None], numbers, -1)
