"""Which expert lies in which place of which rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ExpertPlacement:
    """Logical experts (those of the checkpoint) and physical ones (places for their weights), per layer.

    Made by `of_physical` or `initial`; arrays are read-only.

    Attributes:
        physical_to_logical: int64 [num_layers, num_physical]: the logical expert in each place. Rank r owns the places
            [r * slots, (r + 1) * slots), slots = num_physical / num_ranks.
        logical_to_physical: int64 [num_layers, num_logical, num_physical - num_logical + 1]: the places of each expert,
            ascending, -1 behind the last. Every placement of as many experts and places has this shape.
        replica_counts: int64 [num_layers, num_logical]: places of each expert, at least one.
        num_ranks: ranks of the expert-parallel group.
    """

    physical_to_logical: IntArray
    logical_to_physical: IntArray
    replica_counts: IntArray
    num_ranks: int

    @classmethod
    def of_physical(cls, physical_to_logical: npt.ArrayLike, num_logical: int, num_ranks: int) -> ExpertPlacement:
        """Of the first array alone. Every expert must have a place, and all ranks equally many.

        Args:
            physical_to_logical: int [num_layers, num_physical].
            num_logical: experts of a layer.
            num_ranks: ranks that share the places.
        """
        physical = np.array(physical_to_logical, np.int64)
        num_layers, num_physical = physical.shape
        assert num_physical % num_ranks == 0, (num_physical, num_ranks)
        assert physical.size == 0 or (physical.min() >= 0 and physical.max() < num_logical), physical
        counts = np.stack([np.bincount(row, minlength=num_logical) for row in physical])
        assert np.all(counts > 0), "an expert without a place"
        logical = np.full((num_layers, num_logical, num_physical - num_logical + 1), -1, np.int64)
        for layer, row in enumerate(physical):
            order = np.argsort(row, kind="stable")
            nth = np.arange(num_physical) - np.repeat(np.cumsum(counts[layer]) - counts[layer], counts[layer])
            logical[layer, row[order], nth] = order
        for array in (physical, logical, counts):
            array.flags.writeable = False
        return cls(physical, logical, counts, num_ranks)

    @classmethod
    def initial(cls, num_layers: int, num_logical: int, num_physical: int, num_ranks: int) -> ExpertPlacement:
        """Before any load is known: experts in order, then again from the first (spec/engine.md 5.6)."""
        row = np.arange(num_physical) % num_logical
        return cls.of_physical(np.tile(row, (num_layers, 1)), num_logical, num_ranks)

    @staticmethod
    def round_up(num_logical: int, min_extra: int, num_ranks: int) -> int:
        """Places of a layer: the experts, at least `min_extra` more, and a multiple of the ranks."""
        return -(-(num_logical + min_extra) // num_ranks) * num_ranks

    @property
    def num_logical(self) -> int:
        """Experts of a layer."""
        return self.replica_counts.shape[1]

    @property
    def num_physical(self) -> int:
        """Places of a layer."""
        return self.physical_to_logical.shape[1]

    @property
    def slots_per_rank(self) -> int:
        """Places of a layer on one rank."""
        return self.num_physical // self.num_ranks

    def rank_of(self, physical: int) -> int:
        """The rank that owns a place."""
        return physical // self.slots_per_rank
