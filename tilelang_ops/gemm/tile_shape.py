"""How a product is cut into tiles, and how a tile is stored: shared by the bodies for every architecture."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T


@dataclass(frozen=True)
class TileShape:
    """Tiles of ``out[t, n] = sum_k x[t, g(n)*dim + k] * w[n, k]``; block (part, rank) makes one.

    Attributes:
        num_out: weight rows N of all groups together.
        dim: columns of a group, a multiple of 32.
        num_groups: 1, or the block-diagonal groups.
        tile_out: outputs a tile: rows of the weight operand. A tile that passes its group's end is cut when stored.
        tile_rows: rows of x a tile.
    """

    num_out: int
    dim: int
    num_groups: int
    tile_out: int
    tile_rows: int

    @property
    def per_group(self) -> int:
        """Outputs a group."""
        return self.num_out // self.num_groups

    @property
    def parts(self) -> int:
        """Tiles side by side over all groups."""
        return self.num_groups * -(-self.per_group // self.tile_out)

    @property
    def tile_dim(self) -> int:
        """Columns a step: a divisor of `dim`, so that no step reads another group's columns."""
        return next(size for size in (128, 64, 32) if self.dim % size == 0)

    @property
    def steps(self) -> int:
        """Steps over the columns."""
        return self.dim // self.tile_dim

    def group(self, part: Any) -> Any:
        """Group of a tile."""
        return part // (self.parts // self.num_groups)

    def first_out(self, part: Any) -> Any:
        """First output of a tile."""
        return self.group(part) * self.per_group + part % (self.parts // self.num_groups) * self.tile_out

    def store(self, total: Any, out: Any, part: Any, rank: Any, num_rows: Any) -> Any:
        """Writes float32 total [tile_out, tile_rows] to its places of out [T, N], rounded once."""

        @T.macro
        def store(total: Any, out: Any, part: Any, rank: Any, num_rows: Any):
            for i, j in T.Parallel(self.tile_out, self.tile_rows):
                if (
                    rank * self.tile_rows + j < num_rows
                    and self.first_out(part) + i < (self.group(part) + 1) * self.per_group
                ):
                    out[rank * self.tile_rows + j, self.first_out(part) + i] = T.Cast(out.dtype, total[i, j])

        return store(total, out, part, rank, num_rows)
