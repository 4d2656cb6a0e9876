"""What is the same for all rows of a selection."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """Sizes and options.

    Attributes:
        max_visible: most entries that a row sees, or more; known to the host.
        topk: most picks per row; a row that sees no more takes all it sees.
        scale: constant factor of the scores.
        round_bf16: round the scaled scores to bf16.
        block_size: entries of a candidate block.
        num_blocks: candidate blocks to give per row; 0: none.
        with_margins: also say how clear the choices were, with torch ops; then every row is scored.
    """

    max_visible: int
    topk: int
    scale: float
    round_bf16: bool
    block_size: int
    num_blocks: int
    with_margins: bool

    @property
    def least(self) -> int:
        """Rows that see no more entries are not scored."""
        return -1 if self.with_margins else self.topk

    def num_slots(self, candidates: torch.Tensor) -> int:
        """Entries of the candidate blocks [T, B], as many as a row can have."""
        return min(candidates.shape[1], -(-self.max_visible // self.block_size)) * self.block_size
