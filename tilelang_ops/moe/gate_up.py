"""First half of the experts: gate and up products of every tile, gated, weighted and quantized."""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.expert_product import (
    STEP,
    WEIGHT_ROWS,
    ProductShape,
    load_activations,
    load_weights,
    store_operands,
    store_scales,
)
from tilelang_ops.moe.gated_hidden import gate_group, store_codes, store_values
from tilelang_ops.moe.weight_words import PRELUDE, words_per_group

_HALF = WEIGHT_ROWS // 2  # rows of the gate matrix in a tile; as many of the up matrix follow


def gate_up_kernel(arch: str, dim: int, hidden_dim: int, shared: bool, tile_rows: int) -> Any:
    """hidden[p] = Q8/32(gated product of the row at sorted place p); a block does 64 hidden columns of one tile.

    Routed experts (FP4) read the tile lists of `expert_layout`. The shared expert (FP8) takes all rows: place p is row
    p, its weight is one, and the lists are not read. SM90: x and hidden are the bf16 values of Q8/32 codes, and their
    scale tensors are not read. SM100 (compiled, never run): codes and scale bytes.
    """
    shape = ProductShape(arch, dim, hidden_dim, shared, tile_rows, 2)
    num_rows, num_places, num_tiles = T.dynamic("num_rows"), T.dynamic("num_places"), T.dynamic("num_tiles")
    num_assigned, x_scale_rows, hidden_scale_rows = (
        T.dynamic("num_assigned"),
        T.dynamic("x_scale_rows"),
        T.dynamic("hidden_scale_rows"),
    )
    num_experts = T.dynamic("num_experts")
    threads = shape.threads

    @T.prim_func
    def gate_up(
        x: T.Tensor((num_rows, dim), shape.act_dtype),
        x_scales: T.Tensor((x_scale_rows, dim // 32), "uint8"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        row_weights: T.Tensor((num_assigned,), "float32"),
        w1: T.Tensor((num_experts, *shape.words_shape), "int32"),
        s1: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        w3: T.Tensor((num_experts, *shape.words_shape), "int32"),
        s3: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        hidden: T.Tensor((num_places, hidden_dim), shape.act_dtype),
        hidden_scales: T.Tensor((hidden_scale_rows, hidden_dim // 32), "uint8"),
        top_k: T.int32,
        limit: T.float32,
    ):
        with T.Kernel(
            T.ceildiv(num_rows, tile_rows) if shared else num_tiles, T.ceildiv(hidden_dim, _HALF), threads=threads
        ) as (tile, part):
            T.import_source(PRELUDE)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((tile_rows,), "int32")
            weight_of = T.alloc_shared((tile_rows,), "float32")
            weights = T.alloc_shared((WEIGHT_ROWS, STEP), shape.act_dtype)
            activations = T.alloc_shared((tile_rows, STEP), shape.act_dtype)
            result = T.alloc_shared((tile_rows, WEIGHT_ROWS + 2), "bfloat16")
            acc = T.alloc_fragment((WEIGHT_ROWS, tile_rows), "float32")
            words = T.alloc_local((len(shape.weight_chunks) * words_per_group(shared),), "int32")
            scale_bytes = T.alloc_local((len(shape.weight_chunks),), "int32")
            values = T.alloc_local((len(shape.act_chunks) * shape.vector,), shape.act_dtype)
            decoded = T.alloc_local((shape.vector,), shape.act_dtype)
            group = T.alloc_local((32,), "float32")
            amax = T.alloc_local((1,), "int32")
            if shape.sm100:
                acc_tmem = T.alloc_tmem((WEIGHT_ROWS, tile_rows), "float32")
                weight_scales = T.alloc_shared((128,), "uint32")
                act_scales = T.alloc_shared((128,), "uint32")
                weight_scales_tmem = T.alloc_tmem((128, 4), "uint32")
                act_scales_tmem = T.alloc_tmem((128, 4), "uint32")
                done = T.alloc_barrier(1)
            stacks = ((w1, s1), (w3, s3))
            count = T.min(num_rows - tile * tile_rows, tile_rows) if shared else tile_count[tile]
            begin = tile * tile_rows if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            if count > 0:
                if thread < tile_rows:
                    x_rows[thread] = -1
                    weight_of[thread] = 1.0
                    if thread < count:
                        if shared:
                            x_rows[thread] = begin + thread
                        else:
                            x_rows[thread] = order[begin + thread] // top_k
                            weight_of[thread] = row_weights[order[begin + thread]]
                T.sync_threads()
                T.clear(acc)
                load_weights(shape, stacks)(0, thread, expert, part * _HALF, words, scale_bytes)
                load_activations(shape)(0, thread, x, x_rows, values)
                for step in T.serial(shape.steps):
                    store_operands(shape)(thread, words, scale_bytes, values, decoded, weights, activations)
                    if shape.sm100:
                        store_scales(shape, stacks)(
                            step, thread, expert, part * _HALF, x_scales, x_rows, amax, weight_scales, act_scales
                        )
                    T.fence_proxy_async()
                    T.sync_threads()
                    if step + 1 < shape.steps:
                        load_weights(shape, stacks)(step + 1, thread, expert, part * _HALF, words, scale_bytes)
                        load_activations(shape)(step + 1, thread, x, x_rows, values)
                    if shape.sm100:
                        if thread < 32:
                            T.tcgen05_cp_warpx4(weight_scales, weight_scales_tmem)
                            T.tcgen05_cp_warpx4(act_scales, act_scales_tmem)
                            T.tcgen05_gemm_blockscaled(
                                weights,
                                activations,
                                acc_tmem,
                                weight_scales_tmem,
                                act_scales_tmem,
                                transpose_B=True,
                                clear_accum=step == 0,
                                mbar=done,
                                k_start=0,
                                sf_a_granularity_k=32,
                                sf_b_granularity_k=32,
                            )
                        T.mbarrier_wait_parity(done, step % 2)
                        T.tcgen05_after_thread_sync()
                    else:
                        T.gemm(weights, activations, acc, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if shape.sm100:
                    T.copy(acc_tmem, acc)
                for i, j in T.Parallel(WEIGHT_ROWS, tile_rows):
                    result[j, i] = T.Cast("bfloat16", acc[i, j])
                T.sync_threads()
                for i in T.serial(T.ceildiv(tile_rows * 2, threads)):
                    row = (i * threads + thread) // 2
                    column = (i * threads + thread) % 2 * 32
                    if (row < count) & (part * _HALF + column < hidden_dim):
                        gate_group(result, row, column, _HALF, weight_of[row], limit, group, amax)
                        if shape.sm100:
                            store_codes(group, amax, decoded, hidden, hidden_scales, begin + row, part * _HALF + column)
                        else:
                            store_values(group, amax, decoded, hidden, begin + row, part * _HALF + column)

    return gate_up
