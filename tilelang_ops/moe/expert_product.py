"""The product under the experts' SM100 kernels: 128 rows of one expert's weights times a tile of activation rows.

Compiled, never run. The weights are the first operand, so that a tile may have as few as 16 activation rows. The
block-scaled tcgen05.mma takes codes and scale bytes: FP4 as the copy engine spreads it, or as e4m3, of which every e2m1
value is one, where K is no multiple of the box. Packed words then go from global memory into registers one step ahead
of their use; decoded operands exist in shared memory only.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tilelang_ops.moe.weight_words import codes_per_word, decode_e4m3, words_per_group

WEIGHT_ROWS = 128
STEP = 128  # columns of K a step; what the last step lacks is zeros
GROUPS = STEP // 32
THREADS = 128  # of a block: one row of the accumulator each
ACT_DTYPE = "float8_e4m3fn"  # activations in global memory, and both operands in shared memory
VECTOR = 16  # operand elements in 16 bytes
_UNIT_SCALES = 0x7F7F7F7F  # four times 2^0


@dataclass(frozen=True)
class ProductShape:
    """Static facts of a product.

    Attributes:
        k: columns of the weights, a multiple of 32.
        num_out: rows of each weight matrix.
        fp8: FP8 32x32-tile weights; else FP4 with scales per 32 columns of a row.
        tile_rows: activation rows of a tile.
        num_stacks: matrices that share the tile's weight rows evenly: 1, or 2 for gate and up.
    """

    k: int
    num_out: int
    fp8: bool
    tile_rows: int
    num_stacks: int

    @property
    def packed_copy(self) -> bool:
        """FP4 weights go to shared memory by TMA, which takes rows of a multiple of 128 codes."""
        return not self.fp8 and self.k % STEP == 0

    @property
    def steps(self) -> int:
        return -(-self.k // STEP)

    @property
    def weight_shape(self) -> tuple[int, int]:
        """One weight matrix as the kernel takes it: FP4 codes, or 32-bit words of codes."""
        return self.num_out, self.k if self.packed_copy else self.k // codes_per_word(self.fp8)

    @property
    def weight_dtype(self) -> str:
        """Of that matrix; int8 bytes of two codes are what PyTorch has for FP4."""
        return "float4_e2m1fn" if self.packed_copy else "int32"

    @property
    def scales_shape(self) -> tuple[int, int]:
        """Its scale bytes: FP8 one per 32x32 codes, FP4 one per 32 columns of a row."""
        return (-(-self.num_out // 32) if self.fp8 else self.num_out), self.k // 32

    @property
    def stack_rows(self) -> int:
        """Tile rows of each matrix."""
        return WEIGHT_ROWS // self.num_stacks

    @property
    def weight_chunks(self) -> int:
        """A thread's groups of 32 weight columns a step."""
        return WEIGHT_ROWS * GROUPS // THREADS

    @property
    def act_chunks(self) -> int:
        """A thread's 16-byte pieces of the activation tile a step."""
        return -(-self.tile_rows * STEP // VECTOR // THREADS)

    def weight_place(self, chunk: Any, thread: Any) -> tuple[Any, Any]:
        """(tile row, group of the step) of a weight chunk; a chunk is of one matrix only."""
        return chunk * (THREADS // GROUPS) + thread // GROUPS, thread % GROUPS

    def act_place(self, chunk: Any, thread: Any) -> tuple[Any, Any]:
        """(tile row, column of the step) of an activation chunk."""
        piece = chunk * THREADS + thread
        return piece // (STEP // VECTOR), piece % (STEP // VECTOR) * VECTOR


def load_weights(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """Macro: packed words of one step into registers; zeros beyond the matrix.

    Args:
        shape: of the product.
        stacks: (weights [E, ...weight_shape], scales uint8 [E, ...scales_shape]) of each matrix.
    """
    per_group = words_per_group(shape.fp8)

    @T.macro
    def load(step: Any, thread: Any, expert: Any, first_row: Any, words: Any) -> None:
        for c in tuple(range(shape.weight_chunks)):
            tile_row, part = shape.weight_place(c, thread)
            stack = stacks[c * shape.num_stacks // shape.weight_chunks][0]
            row = first_row + tile_row % shape.stack_rows
            group = step * GROUPS + part
            for j in T.vectorized(per_group):
                words[c * per_group + j] = 0
            if (row < shape.num_out) & (group < shape.k // 32):
                for quad in T.unroll(per_group // 4):
                    for j in T.vectorized(4):
                        words[c * per_group + quad * 4 + j] = stack[expert, row, group * per_group + quad * 4 + j]

    return load


def load_activations(shape: ProductShape) -> Any:
    """Macro: the activation tile of one step into registers; zeros for absent rows (x_rows -1) and columns."""

    @T.macro
    def load(step: Any, thread: Any, x: Any, x_rows: Any, values: Any) -> None:
        for c in T.unroll(shape.act_chunks):
            tile_row, tile_column = shape.act_place(c, thread)
            column = step * STEP + tile_column
            for v in T.vectorized(VECTOR):
                values[c * VECTOR + v] = T.Cast(ACT_DTYPE, T.float32(0.0))
            if (tile_row < shape.tile_rows) & (column < shape.k):
                row = x_rows[tile_row]
                if row >= 0:
                    for v in T.vectorized(VECTOR):
                        values[c * VECTOR + v] = x[row, column + v]

    return load


def store_weights(shape: ProductShape) -> Any:
    """Macro: words of one step in registers, decoded, to the shared weight tile."""
    per_group = words_per_group(shape.fp8)

    @T.macro
    def store(thread: Any, words: Any, decoded: Any, weights: Any) -> None:
        for c in T.unroll(shape.weight_chunks):
            tile_row, part = shape.weight_place(c, thread)
            for j in T.unroll(32 // VECTOR):
                first = c * per_group + j * (per_group * VECTOR // 32)
                decode_e4m3(words, first, decoded, shape.fp8)
                for v in T.vectorized(VECTOR):
                    weights[tile_row, part * 32 + j * VECTOR + v] = decoded[v]

    return store


def store_activations(shape: ProductShape) -> Any:
    """Macro: the activation tile of one step from registers to shared memory."""

    @T.macro
    def store(thread: Any, values: Any, activations: Any) -> None:
        for c in T.unroll(shape.act_chunks):
            tile_row, tile_column = shape.act_place(c, thread)
            if tile_row < shape.tile_rows:
                for v in T.vectorized(VECTOR):
                    activations[tile_row, tile_column + v] = values[c * VECTOR + v]

    return store


def store_scales(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """Macro: scale words of one step, four groups each, in the order tcgen05.cp takes them.

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


@T.macro
def multiply_scaled(
    weights: Any, activations: Any, acc_tmem: Any, scales: Any, scales_tmem: Any, is_first: Any, done: Any
) -> None:
    """acc (+)= weights @ activations^T with a scale byte per 32 columns of both; `scales` and where they go are
    pairs (of the weights, of the activations). One warp calls it.
    """
    T.tcgen05_cp_warpx4(scales[0], scales_tmem[0])
    T.tcgen05_cp_warpx4(scales[1], scales_tmem[1])
    T.tcgen05_gemm_blockscaled(
        weights,
        activations,
        acc_tmem,
        scales_tmem[0],
        scales_tmem[1],
        transpose_B=True,
        clear_accum=is_first,
        mbar=done,
        k_start=0,
        sf_a_granularity_k=32,
        sf_b_granularity_k=32,
    )


def expert_product(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """Macro: acc f32 [128, tile_rows] = weight rows of an expert times the tile's activation rows, if count > 0.

    Weight row of tile row r: `first_row` + r % stack_rows of matrix r // stack_rows. Activation row j is row x_rows[j]
    of x (shared int32; -1: zeros).
    """
    if shape.packed_copy:
        return _packed_product(shape, stacks)
    per_group = words_per_group(shape.fp8)

    @T.macro
    def product(
        thread: Any, count: Any, expert: Any, first_row: Any, x: Any, x_scales: Any, x_rows: Any, acc: Any
    ) -> None:
        weights = T.alloc_shared((WEIGHT_ROWS, STEP), ACT_DTYPE)
        activations = T.alloc_shared((shape.tile_rows, STEP), ACT_DTYPE)
        words = T.alloc_local((shape.weight_chunks * per_group,), "int32")
        values = T.alloc_local((shape.act_chunks * VECTOR,), ACT_DTYPE)
        decoded = T.alloc_local((VECTOR,), ACT_DTYPE)
        acc_tmem = T.alloc_tmem((WEIGHT_ROWS, shape.tile_rows), "float32")
        weight_scales = T.alloc_shared((128,), "uint32")
        act_scales = T.alloc_shared((128,), "uint32")
        weight_scales_tmem = T.alloc_tmem((128, 4), "uint32")
        act_scales_tmem = T.alloc_tmem((128, 4), "uint32")
        word = T.alloc_local((1,), "int32")
        done = T.alloc_barrier(1)
        if count > 0:
            load_weights(shape, stacks)(0, thread, expert, first_row, words)
            load_activations(shape)(0, thread, x, x_rows, values)
            for step in T.serial(shape.steps):
                store_weights(shape)(thread, words, decoded, weights)
                store_activations(shape)(thread, values, activations)
                store_scales(shape, stacks)(
                    step, thread, expert, first_row, x_scales, x_rows, word, weight_scales, act_scales
                )
                T.fence_proxy_async()
                T.sync_threads()
                if step + 1 < shape.steps:
                    load_weights(shape, stacks)(step + 1, thread, expert, first_row, words)
                    load_activations(shape)(step + 1, thread, x, x_rows, values)
                if thread < 32:
                    multiply_scaled(
                        weights,
                        activations,
                        acc_tmem,
                        (weight_scales, act_scales),
                        (weight_scales_tmem, act_scales_tmem),
                        step == 0,
                        done,
                    )
                T.mbarrier_wait_parity(done, step % 2)
                T.tcgen05_after_thread_sync()
            T.copy(acc_tmem, acc)

    return product


def _packed_product(shape: ProductShape, stacks: tuple[tuple[Any, Any], ...]) -> Any:
    """`expert_product` of FP4 weights that TMA copies, one step ahead, into two buffers."""

    @T.macro
    def copy_weights(step: Any, expert: Any, first_row: Any, weights: Any, loaded: Any) -> None:
        for s in tuple(range(shape.num_stacks)):
            T.tma_copy(
                stacks[s][0][expert, first_row : first_row + shape.stack_rows, step * STEP : (step + 1) * STEP],
                weights[step % 2, s * shape.stack_rows : (s + 1) * shape.stack_rows, :],
                barrier=loaded[step % 2],
            )
        T.mbarrier_arrive(loaded[step % 2])

    @T.macro
    def product(
        thread: Any, count: Any, expert: Any, first_row: Any, x: Any, x_scales: Any, x_rows: Any, acc: Any
    ) -> None:
        weights = T.alloc_shared((2, WEIGHT_ROWS, STEP), T.float4_e2m1_unpacked)
        activations = T.alloc_shared((shape.tile_rows, STEP), ACT_DTYPE)
        values = T.alloc_local((shape.act_chunks * VECTOR,), ACT_DTYPE)
        word = T.alloc_local((1,), "int32")
        acc_tmem = T.alloc_tmem((WEIGHT_ROWS, shape.tile_rows), "float32")
        weight_scales = T.alloc_shared((128,), "uint32")
        act_scales = T.alloc_shared((128,), "uint32")
        weight_scales_tmem = T.alloc_tmem((128, 4), "uint32")
        act_scales_tmem = T.alloc_tmem((128, 4), "uint32")
        loaded = T.alloc_barrier([32, 32])
        done = T.alloc_barrier(1)
        if count > 0:
            if thread < 32:
                copy_weights(0, expert, first_row, weights, loaded)
            load_activations(shape)(0, thread, x, x_rows, values)
            for step in T.serial(shape.steps):
                if (thread < 32) & (step + 1 < shape.steps):
                    copy_weights(step + 1, expert, first_row, weights, loaded)
                store_activations(shape)(thread, values, activations)
                store_scales(shape, stacks)(
                    step, thread, expert, first_row, x_scales, x_rows, word, weight_scales, act_scales
                )
                T.fence_proxy_async()
                T.sync_threads()
                if step + 1 < shape.steps:
                    load_activations(shape)(step + 1, thread, x, x_rows, values)
                if thread < 32:
                    T.mbarrier_wait_parity(loaded[step % 2], step // 2 % 2)
                    multiply_scaled(
                        weights[step % 2, :, :],
                        activations,
                        acc_tmem,
                        (weight_scales, act_scales),
                        (weight_scales_tmem, act_scales_tmem),
                        step == 0,
                        done,
                    )
                T.mbarrier_wait_parity(done, step % 2)
                T.tcgen05_after_thread_sync()
            T.copy(acc_tmem, acc)

    return product
