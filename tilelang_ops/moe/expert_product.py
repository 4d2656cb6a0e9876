"""The tile product under the experts' matrix kernels: 128 rows of one expert's weights times a tile of activation rows.

The weights are the first operand, so that a tile may have as few as 16 activation rows. Packed words go from global
memory into registers one step ahead of their use; decoded operands exist in shared memory only. On SM90 they are bf16,
scales included, for wgmma; on SM100 e4m3 with their scale bytes, for the block-scaled tcgen05.mma.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.jit.arch import is_sm100
from tilelang_ops.moe.weight_words import codes_per_word, decode_bf16, decode_e4m3, words_per_group

WEIGHT_ROWS = 128
STEP = 128  # columns of K a step; what the last step lacks is zeros
GROUPS = STEP // 32
_UNIT_SCALES = 0x7F7F7F7F  # four times 2^0


@dataclass(frozen=True)
class ProductShape:
    """Static facts of a product.

    Attributes:
        arch: "sm_90a" or "sm_100a".
        k: columns of the weights, a multiple of 32.
        num_out: rows of each weight matrix.
        fp8: FP8 32x32-tile weights; else FP4 with scales per 32 columns of a row.
        tile_rows: activation rows of a tile.
        num_stacks: matrices that share the tile's weight rows evenly: 1, or 2 for gate and up.
    """

    arch: str
    k: int
    num_out: int
    fp8: bool
    tile_rows: int
    num_stacks: int

    @property
    def sm100(self) -> bool:
        return is_sm100(self.arch)

    @property
    def threads(self) -> int:
        """SM90: two warpgroups of 64 weight rows each. SM100: one row of the accumulator a thread."""
        return 128 if self.sm100 else 256

    @property
    def act_dtype(self) -> str:
        """Activations in global memory, and both operands in shared memory."""
        return "float8_e4m3fn" if self.sm100 else "bfloat16"

    @property
    def vector(self) -> int:
        """Operand elements in 16 bytes."""
        return 16 if self.sm100 else 8

    @property
    def steps(self) -> int:
        return -(-self.k // STEP)

    @property
    def words_shape(self) -> tuple[int, int]:
        """One weight matrix as 32-bit words."""
        return self.num_out, self.k // codes_per_word(self.fp8)

    @property
    def scales_shape(self) -> tuple[int, int]:
        """Its scale bytes: FP8 one per 32x32 codes, FP4 one per 32 columns of a row."""
        return (-(-self.num_out // 32) if self.fp8 else self.num_out), self.k // 32

    @property
    def stack_rows(self) -> int:
        """Tile rows of each matrix."""
        return WEIGHT_ROWS // self.num_stacks

    @property
    def weight_chunks(self) -> tuple[int, ...]:
        """A thread's groups of 32 weight columns a step."""
        return tuple(range(WEIGHT_ROWS * GROUPS // self.threads))

    @property
    def act_chunks(self) -> tuple[int, ...]:
        """A thread's 16-byte pieces of the activation tile a step."""
        return tuple(range(-(-self.tile_rows * STEP // self.vector // self.threads)))

    def weight_place(self, chunk: int, thread: Any) -> tuple[Any, Any]:
        """(tile row, group of the step) of a weight chunk; a chunk is of one matrix only."""
        return chunk * (self.threads // GROUPS) + thread // GROUPS, thread % GROUPS

    def act_place(self, chunk: int, thread: Any) -> tuple[Any, Any]:
        """(tile row, column of the step) of an activation chunk."""
        piece = chunk * self.threads + thread
        return piece // (STEP // self.vector), piece % (STEP // self.vector) * self.vector


def load_weights(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """Macro: packed words and scale bytes of one step into registers; zeros beyond the matrix.

    Args:
        shape: of the product.
        stacks: (words int32 [E, ...words_shape], scales uint8 [E, ...scales_shape]) of each matrix.
    """
    per_group = words_per_group(shape.fp8)

    @T.macro
    def load(step: Any, thread: Any, expert: Any, first_row: Any, words: Any, scale_bytes: Any) -> None:
        for c in shape.weight_chunks:
            tile_row, part = shape.weight_place(c, thread)
            stack, scales = stacks[c * shape.num_stacks // len(shape.weight_chunks)]
            row = first_row + tile_row % shape.stack_rows
            group = step * GROUPS + part
            scale_bytes[c] = 0
            for j in T.vectorized(per_group):
                words[c * per_group + j] = 0
            if (row < shape.num_out) & (group < shape.k // 32):
                for quad in tuple(range(per_group // 4)):
                    for j in T.vectorized(4):
                        words[c * per_group + quad * 4 + j] = stack[expert, row, group * per_group + quad * 4 + j]
                if not shape.sm100:
                    scale_bytes[c] = T.Cast("int32", scales[expert, row // 32 if shape.fp8 else row, group])

    return load


def load_activations(shape: ProductShape) -> Any:
    """Macro: the activation tile of one step into registers; zeros for absent rows (x_rows -1) and columns."""

    @T.macro
    def load(step: Any, thread: Any, x: Any, x_rows: Any, values: Any) -> None:
        for c in shape.act_chunks:
            tile_row, tile_column = shape.act_place(c, thread)
            column = step * STEP + tile_column
            for v in T.vectorized(shape.vector):
                values[c * shape.vector + v] = T.Cast(shape.act_dtype, T.float32(0.0))
            if (tile_row < shape.tile_rows) & (column < shape.k):
                row = x_rows[tile_row]
                if row >= 0:
                    for v in T.vectorized(shape.vector):
                        values[c * shape.vector + v] = x[row, column + v]

    return load


def store_operands(shape: ProductShape) -> Any:
    """Macro: registers to shared memory, the weights decoded; a fence and a barrier make them visible to the MMA."""
    per_group = words_per_group(shape.fp8)

    @T.macro
    def store(
        thread: Any, words: Any, scale_bytes: Any, values: Any, decoded: Any, weights: Any, activations: Any
    ) -> None:
        for c in shape.weight_chunks:
            tile_row, part = shape.weight_place(c, thread)
            for j in tuple(range(32 // shape.vector)):
                first = c * per_group + j * per_group * shape.vector // 32
                if shape.sm100:
                    decode_e4m3(words, first, decoded, shape.fp8)
                else:
                    decode_bf16(words, first, scale_bytes[c], decoded, shape.fp8)
                for v in T.vectorized(shape.vector):
                    weights[tile_row, part * 32 + j * shape.vector + v] = decoded[v]
        for c in shape.act_chunks:
            tile_row, tile_column = shape.act_place(c, thread)
            if tile_row < shape.tile_rows:
                for v in T.vectorized(shape.vector):
                    activations[tile_row, tile_column + v] = values[c * shape.vector + v]

    return store


def store_scales(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """Macro of SM100: scale words of one step, four groups each, in the order tcgen05.cp takes them.

    Word of row r: place (r % 32) * 4 + r // 32, group g in byte g. Rows and groups that are absent have scale one.
    """

    @T.macro
    def store(
        step: Any,
        thread: Any,
        expert: Any,
        first_row: Any,
        x_scales: Any,
        x_rows: Any,
        word: Any,
        weight_scales: Any,
        act_scales: Any,
    ) -> None:
        place = thread % 32 * 4 + thread // 32
        word[0] = _UNIT_SCALES
        row = first_row + thread % shape.stack_rows
        for s in tuple(range(shape.num_stacks)):
            scales = stacks[s][1]
            if (thread // shape.stack_rows == s) & (row < shape.num_out):
                word[0] = 0
                for g in tuple(range(GROUPS)):
                    word[0] |= 127 << (8 * g)
                    if step * GROUPS + g < shape.k // 32:
                        byte = T.Cast("int32", scales[expert, row // 32 if shape.fp8 else row, step * GROUPS + g])
                        word[0] ^= (byte ^ 127) << (8 * g)
        weight_scales[place] = T.reinterpret(word[0], "uint32")
        word[0] = _UNIT_SCALES
        if thread < shape.tile_rows:
            x_row = x_rows[thread]
            if x_row >= 0:
                for g in tuple(range(GROUPS)):
                    if step * GROUPS + g < shape.k // 32:
                        byte = T.Cast("int32", x_scales[x_row, step * GROUPS + g])
                        word[0] ^= (byte ^ 127) << (8 * g)
        act_scales[place] = T.reinterpret(word[0], "uint32")

    return store
