"""Static facts of the experts' kernels for many rows on SM90: tiles, steps and where things lie in shared memory.

Activations lie in global memory in *operand order*: 128 columns at a time, so that 16 neighbouring ones are what a step
of wgmma takes from the four lanes that share a weight row, each of which holds 32 columns of it as they lie in memory.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

BLOCK = 128  # columns of K in operand order; FP4: a stage, FP8: two stages of 64
_ROW_BYTES = 64  # of a weight row in a stage
_SCALE_BYTES = 16  # of a weight row at a time: those of four blocks
_STAGING_ROW = 2 * BLOCK + 16  # padded: rows begin in other banks


def operand_place(column: Any) -> Any:
    """Place of a column in operand order."""
    group, word, code = column % BLOCK // 32, column % 32 // 8, column % 8
    return column // BLOCK * BLOCK + (word * 2 + code % 4 // 2) * 16 + code % 2 * 8 + group * 2 + code // 4


def padded(columns: int) -> int:
    """Columns of a row in operand order."""
    return -(-columns // BLOCK) * BLOCK


@dataclass(frozen=True)
class StreamShape:
    """A block multiplies `rows` weight rows by a tile of activation rows.

    Attributes:
        k: columns of the weights, a multiple of 32.
        num_out: rows of a weight matrix.
        stacks: 2: gate and up, half of a block's weight rows each; 1.
        sizes: a product is done for the next of these numbers of activation rows, multiples of 8, ascending.
        stages: copies in flight.
        words: weight words of a lane's row, 8 columns each, that are decoded for one group of products: 1 or 2.
        registers: of a thread that copies and of one that multiplies, in place of equal shares.
        tiles: tiles of 64 weight rows of a multiplying warpgroup.
        consumers: threads that multiply: two warpgroups.
        copiers: threads that copy, a whole warpgroup so that it can give up registers.
    """

    k: int
    num_out: int
    stacks: int
    sizes: tuple[int, ...]
    stages: int
    words: int
    registers: tuple[int, int]
    tiles: ClassVar[int] = 2
    consumers: ClassVar[int] = 256
    copiers: ClassVar[int] = 128

    @property
    def tile_rows(self) -> int:
        """Most activation rows."""
        return self.sizes[-1]

    @property
    def sizes_fp8(self) -> tuple[int, ...]:
        """Tiles of the shared expert are full but for one."""
        return tuple(n for n in self.sizes if n <= 16 or n == self.tile_rows)

    @property
    def rows(self) -> int:
        return self.consumers // 128 * self.tiles * 64

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.rows // self.stacks

    @property
    def parts(self) -> int:
        """Blocks of columns of a tile's result."""
        return -(-self.num_out // self.columns)

    @property
    def threads(self) -> int:
        return self.consumers + self.copiers

    @property
    def blocks(self) -> int:
        """Blocks of K."""
        return -(-self.k // BLOCK)

    @property
    def has_tail(self) -> bool:
        return self.k % BLOCK != 0

    @property
    def plain_scales(self) -> bool:
        """Whether a row's scales are too narrow for asynchronous copies; copying threads then arrive twice."""
        return self.k // 32 % 4 != 0

    @property
    def panel_bytes(self) -> int:
        """64 columns of the activation tile."""
        return self.tile_rows * 128

    @property
    def x_bytes(self) -> int:
        return 2 * self.panel_bytes

    @property
    def weights_at(self) -> int:
        """First byte in shared memory; the activation stages come first."""
        return self.stages * self.x_bytes

    @property
    def weight_bytes(self) -> int:
        return self.rows * _ROW_BYTES

    @property
    def scales_at(self) -> int:
        return self.weights_at + self.stages * self.weight_bytes

    @property
    def scale_bytes(self) -> int:
        """Scales of four blocks of K; as many of them as stages, since all stages may be of different ones."""
        return self.rows * _SCALE_BYTES

    @property
    def notes_at(self) -> int:
        return self.scales_at + self.stages * self.scale_bytes

    def notes(self, slot: Any) -> Any:
        """Byte where an item's notes begin: four words, and one for each row of the tile."""
        return self.notes_at + slot * (16 + 4 * self.tile_rows)

    @property
    def amax_at(self) -> int:
        """Of a word for each row of the tile and each of four warps of the warpgroups' tiles."""
        return self.notes(2)

    @property
    def staging_at(self) -> int:
        amax = self.rows // 64 * 4 * self.tile_rows * 4 if self.stacks == 2 else 0
        return self.amax_at + amax

    @property
    def shared_bytes(self) -> int:
        return self.staging_at + (self.tile_rows * _STAGING_ROW if self.stacks == 2 else 0)

    def staging(self, row: Any, place: Any) -> Any:
        """Byte of a hidden value of the tile."""
        return self.staging_at + row * _STAGING_ROW + place * 2
