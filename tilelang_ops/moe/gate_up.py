"""First half of the experts for many rows on SM100: gate and up products of every tile, gated and quantized."""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.expert_product import ACT_DTYPE, THREADS, VECTOR, WEIGHT_ROWS, ProductShape, expert_product
from tilelang_ops.moe.gated_hidden import gate_group, store_codes
from tilelang_ops.moe.weight_words import PRELUDE

_HALF = WEIGHT_ROWS // 2  # rows of the gate matrix in a tile; as many of the up matrix follow


def gate_up_kernel(arch: str, dim: int, hidden_dim: int, shared: bool, tile_rows: int) -> Any:
    """hidden[p] = Q8/32(gated product of the row at sorted place p); a block does 64 hidden columns of one tile.

    Routed experts (FP4) read the tile lists of `expert_layout`. The shared expert (FP8) takes all rows: place p is row
    p, its weight is one, and the lists are not read. x and hidden are Q8/32 codes and scale bytes.
    """
    shape = ProductShape(dim, hidden_dim, shared, tile_rows, 2)
    num_rows, num_places, num_tiles = T.dynamic("num_rows"), T.dynamic("num_places"), T.dynamic("num_tiles")
    num_assigned, x_scale_rows, hidden_scale_rows = (
        T.dynamic("num_assigned"),
        T.dynamic("x_scale_rows"),
        T.dynamic("hidden_scale_rows"),
    )
    num_experts = T.dynamic("num_experts")

    @T.prim_func
    def gate_up(
        x: T.Tensor((num_rows, dim), ACT_DTYPE),
        x_scales: T.Tensor((x_scale_rows, dim // 32), "uint8"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        row_weights: T.Tensor((num_assigned,), "float32"),
        w1: T.Tensor((num_experts, *shape.weight_shape), shape.weight_dtype),
        s1: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        w3: T.Tensor((num_experts, *shape.weight_shape), shape.weight_dtype),
        s3: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        hidden: T.Tensor((num_places, hidden_dim), ACT_DTYPE),
        hidden_scales: T.Tensor((hidden_scale_rows, hidden_dim // 32), "uint8"),
        top_k: T.int32,
        limit: T.float32,
    ):
        with T.Kernel(
            T.ceildiv(num_rows, tile_rows) if shared else num_tiles, T.ceildiv(hidden_dim, _HALF), threads=THREADS
        ) as (tile, part):
            T.import_source(PRELUDE)
            T.annotate_min_blocks_per_sm(2)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((tile_rows,), "int32")
            weight_of = T.alloc_shared((tile_rows,), "float32")
            result = T.alloc_shared((tile_rows, WEIGHT_ROWS + 2), "bfloat16")
            acc = T.alloc_fragment((WEIGHT_ROWS, tile_rows), "float32")
            rounded = T.alloc_local((VECTOR,), ACT_DTYPE)
            group = T.alloc_local((32,), "float32")
            amax = T.alloc_local((1,), "int32")
            stacks = ((w1, s1), (w3, s3))
            count = T.min(num_rows - tile * tile_rows, tile_rows) if shared else tile_count[tile]
            begin = tile * tile_rows if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            if (count > 0) & (thread < tile_rows):
                if shared:
                    x_rows[thread] = T.if_then_else(thread < count, begin + thread, -1)
                    weight_of[thread] = 1.0
                else:
                    x_rows[thread] = T.if_then_else(thread < count, order[begin + thread] // top_k, -1)
                    weight_of[thread] = T.if_then_else(thread < count, row_weights[order[begin + thread]], 1.0)
            T.sync_threads()
            expert_product(shape, stacks)(thread, count, expert, part * _HALF, x, x_scales, x_rows, acc)
            if count > 0:
                for i, j in T.Parallel(WEIGHT_ROWS, tile_rows):
                    result[j, i] = T.Cast("bfloat16", acc[i, j])
                T.sync_threads()
                for i in T.serial(T.ceildiv(tile_rows * 2, THREADS)):
                    row = (i * THREADS + thread) // 2
                    column = (i * THREADS + thread) % 2 * 32
                    if (row < count) & (part * _HALF + column < hidden_dim):
                        gate_group(result, row, column, _HALF, weight_of[row], limit, group, amax)
                        store_codes(group, amax, rounded, hidden, hidden_scales, begin + row, part * _HALF + column)

    return gate_up
