"""Which rows a tile of the experts' kernels for few rows has, and how their work is split over the blocks."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.moe.few_product import FEW_ROWS


@dataclass(frozen=True)
class FewTiles:
    """Tiles of at most 8 assignments of one expert, those of the shared FP8 expert apart.

    Attributes:
        single: one row: tile t is its t-th assignment, and only `ids` is read.
        num_shared: rows that the shared expert takes: all of the step, or none.
        num_assigned: rows * top_k; 0: the lists are not read.
        ids: int64 [num_assigned].
        order: int32 [num_assigned]; this and the others as in `ExpertLayout`.
        tile_expert: int32 [tiles].
        tile_begin: int32 [tiles].
        tile_count: int32 [tiles].
        tiles_used: int32 [1].
    """

    single: bool
    num_shared: Any
    num_assigned: Any
    ids: Any
    order: Any
    tile_expert: Any
    tile_begin: Any
    tile_count: Any
    tiles_used: Any

    def expert_of(self, tile: Any) -> Any:
        return T.Cast("int32", self.ids[tile]) if self.single else self.tile_expert[tile]

    def count(self, tile: Any, fp8: bool) -> Any:
        if fp8:
            return T.min(self.num_shared - tile * FEW_ROWS, FEW_ROWS)
        return T.int32(1) if self.single else self.tile_count[tile]

    def begin(self, tile: Any, fp8: bool) -> Any:
        """First place: of the assignments in sorted order, behind which the shared expert's rows follow."""
        if fp8:
            return self.num_assigned + tile * FEW_ROWS
        return tile if self.single else self.tile_begin[tile]

    def assignment(self, place: Any) -> Any:
        """Row * top_k + rank of a routed place."""
        return place if self.single else self.order[place]

    def share(self, block: Any, blocks: Any, units: int, fp8: bool) -> tuple[Any, Any]:
        """(first, last + 1) unit of a block: even shares of the weights' bytes, the shared expert's first.

        An FP8 unit has twice the bytes of an FP4 one and belongs to the block that its first half falls to.
        """
        used = self.num_assigned if self.single else T.if_then_else(self.num_assigned > 0, self.tiles_used[0], 0)
        shared = T.ceildiv(self.num_shared, FEW_ROWS) * units
        work = T.Cast("int64", shared * 2 + used * units)
        low, high = (T.Cast("int32", work * (block + edge) // blocks) for edge in (0, 1))
        if fp8:
            return T.min((low + 1) // 2, shared), T.min((high + 1) // 2, shared)
        return T.max(low - shared * 2, 0), T.max(high - shared * 2, 0)
