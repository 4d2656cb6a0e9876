"""Which ranks belong together: the groups of each kind, from the sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.parallel_config import ParallelConfig

RankGroup = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankLayout:
    """Ranks 0 .. world_size - 1, rank = replica * context_parallel_size + place in the replica (spec/engine.md 5.1).

    Attributes:
        sizes: of the groups.
    """

    sizes: ParallelConfig

    @property
    def world(self) -> RankGroup:
        """All ranks."""
        return tuple(range(self.sizes.world_size))

    def replica_of(self, rank: int) -> int:
        """The data-parallel replica that a rank belongs to."""
        return rank // self.sizes.context_parallel_size

    def data_group(self, rank: int) -> RankGroup:
        """The ranks at the same place of every replica."""
        return self.world[rank % self.sizes.context_parallel_size :: self.sizes.context_parallel_size]

    def context_group(self, rank: int) -> RankGroup:
        """The ranks of a rank's replica."""
        return self._block(rank, self.sizes.context_parallel_size)

    def expert_group(self, rank: int) -> RankGroup:
        """The ranks that hold all experts together."""
        return self._block(rank, self.sizes.expert_parallel_size)

    def engram_group(self, rank: int) -> RankGroup:
        """The ranks that hold all rows of the Engram tables together."""
        return self._block(rank, self.sizes.engram_parallel_size)

    def lockstep_group(self, rank: int) -> RankGroup:
        """The ranks that step together."""
        return self._block(rank, self.sizes.lockstep_size)

    def _block(self, rank: int, size: int) -> RankGroup:
        first = rank // size * size
        return self.world[first : first + size]
