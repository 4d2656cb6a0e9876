"""Sizes that say where a decode step's rows find and leave things in the caches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepGeometry:
    """Fixed for a model, its caches and a bound of the texts' lengths.

    Attributes:
        window: positions W of a sliding window, the row's own one included.
        window_ring: slots of the window rings.
        block_size: original tokens per block.
        entry_rings: (compression ratio, slots of its compressors' rings; 1 without any) of every ratio above 0.
        max_len: positions of all rows are below it.
        topk: entries that a row attends to at most.
    """

    window: int
    window_ring: int
    block_size: int
    entry_rings: tuple[tuple[int, int], ...]
    max_len: int
    topk: int

    def takes_all(self, ratio: int) -> bool:
        """Whether no row sees more entries of this ratio than it may attend to."""
        return self.max_len // ratio <= self.topk
