"""Second half of the experts for many rows on SM100: the down product of every tile, in assignment order."""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.expert_product import ACT_DTYPE, THREADS, WEIGHT_ROWS, ProductShape, expert_product
from tilelang_ops.moe.weight_words import PRELUDE


def down_kernel(arch: str, dim: int, hidden_dim: int, shared: bool, tile_rows: int) -> Any:
    """out[assignment at sorted place p] = bf16(w2 of its expert @ hidden[p]); a block does 128 columns of one tile.

    The shared expert (FP8): place p is row p, and the lists are not read. hidden holds Q8/32 codes and scale bytes.
    """
    shape = ProductShape(hidden_dim, dim, shared, tile_rows, 1)
    num_places, num_tiles, num_assigned = T.dynamic("num_places"), T.dynamic("num_tiles"), T.dynamic("num_assigned")
    num_experts, scale_rows = T.dynamic("num_experts"), T.dynamic("scale_rows")

    @T.prim_func
    def down(
        hidden: T.Tensor((num_places, hidden_dim), ACT_DTYPE),
        hidden_scales: T.Tensor((scale_rows, hidden_dim // 32), "uint8"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        w2: T.Tensor((num_experts, *shape.weight_shape), shape.weight_dtype),
        s2: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        out: T.Tensor((num_places, dim), "bfloat16"),
    ):
        with T.Kernel(
            T.ceildiv(num_places, tile_rows) if shared else num_tiles, T.ceildiv(dim, WEIGHT_ROWS), threads=THREADS
        ) as (tile, part):
            T.import_source(PRELUDE)
            T.annotate_min_blocks_per_sm(2)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((tile_rows,), "int32")
            result = T.alloc_shared((tile_rows, WEIGHT_ROWS + 8), "bfloat16")
            acc = T.alloc_fragment((WEIGHT_ROWS, tile_rows), "float32")
            stacks = ((w2, s2),)
            count = T.min(num_places - tile * tile_rows, tile_rows) if shared else tile_count[tile]
            begin = tile * tile_rows if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            if (count > 0) & (thread < tile_rows):
                x_rows[thread] = T.if_then_else(thread < count, begin + thread, -1)
            T.sync_threads()
            expert_product(shape, stacks)(thread, count, expert, part * WEIGHT_ROWS, hidden, hidden_scales, x_rows, acc)
            if count > 0:
                for i, j in T.Parallel(WEIGHT_ROWS, tile_rows):
                    result[j, i] = T.Cast("bfloat16", acc[i, j])
                T.sync_threads()
                for i in T.serial(T.ceildiv(tile_rows * WEIGHT_ROWS // 8, THREADS)):
                    row = (i * THREADS + thread) // (WEIGHT_ROWS // 8)
                    column = (i * THREADS + thread) % (WEIGHT_ROWS // 8) * 8
                    if (row < count) & (part * WEIGHT_ROWS + column < dim):
                        place = begin + row if shared else order[begin + row]
                        for v in T.vectorized(8):
                            out[place, part * WEIGHT_ROWS + column + v] = result[row, column + v]

    return down
