"""Second half of the experts: the down product of every tile, written back in assignment order."""

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
from tilelang_ops.moe.weight_words import PRELUDE, words_per_group


def down_kernel(arch: str, dim: int, hidden_dim: int, shared: bool, tile_rows: int) -> Any:
    """out[assignment at sorted place p] = bf16(w2 of its expert @ hidden[p]); a block does 128 columns of one tile.

    The shared expert (FP8): place p is row p, and the lists are not read. SM90: hidden holds bf16 values, and its
    scales are not read. SM100 (compiled, never run): codes and scale bytes.
    """
    shape = ProductShape(arch, hidden_dim, dim, shared, tile_rows, 1)
    num_places, num_tiles, num_assigned = T.dynamic("num_places"), T.dynamic("num_tiles"), T.dynamic("num_assigned")
    num_experts, scale_rows = T.dynamic("num_experts"), T.dynamic("scale_rows")
    threads = shape.threads

    @T.prim_func
    def down(
        hidden: T.Tensor((num_places, hidden_dim), shape.act_dtype),
        hidden_scales: T.Tensor((scale_rows, hidden_dim // 32), "uint8"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        w2: T.Tensor((num_experts, *shape.words_shape), "int32"),
        s2: T.Tensor((num_experts, *shape.scales_shape), "uint8"),
        out: T.Tensor((num_places, dim), "bfloat16"),
    ):
        with T.Kernel(
            T.ceildiv(num_places, tile_rows) if shared else num_tiles, T.ceildiv(dim, WEIGHT_ROWS), threads=threads
        ) as (tile, part):
            T.import_source(PRELUDE)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((tile_rows,), "int32")
            weights = T.alloc_shared((WEIGHT_ROWS, STEP), shape.act_dtype)
            activations = T.alloc_shared((tile_rows, STEP), shape.act_dtype)
            result = T.alloc_shared((tile_rows, WEIGHT_ROWS + 8), "bfloat16")
            acc = T.alloc_fragment((WEIGHT_ROWS, tile_rows), "float32")
            words = T.alloc_local((len(shape.weight_chunks) * words_per_group(shared),), "int32")
            scale_bytes = T.alloc_local((len(shape.weight_chunks),), "int32")
            values = T.alloc_local((len(shape.act_chunks) * shape.vector,), shape.act_dtype)
            decoded = T.alloc_local((shape.vector,), shape.act_dtype)
            word = T.alloc_local((1,), "int32")
            if shape.sm100:
                acc_tmem = T.alloc_tmem((WEIGHT_ROWS, tile_rows), "float32")
                weight_scales = T.alloc_shared((128,), "uint32")
                act_scales = T.alloc_shared((128,), "uint32")
                weight_scales_tmem = T.alloc_tmem((128, 4), "uint32")
                act_scales_tmem = T.alloc_tmem((128, 4), "uint32")
                done = T.alloc_barrier(1)
            stacks = ((w2, s2),)
            count = T.min(num_places - tile * tile_rows, tile_rows) if shared else tile_count[tile]
            begin = tile * tile_rows if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            if count > 0:
                if thread < tile_rows:
                    x_rows[thread] = T.if_then_else(thread < count, begin + thread, -1)
                T.sync_threads()
                T.clear(acc)
                load_weights(shape, stacks)(0, thread, expert, part * WEIGHT_ROWS, words, scale_bytes)
                load_activations(shape)(0, thread, hidden, x_rows, values)
                for step in T.serial(shape.steps):
                    store_operands(shape)(thread, words, scale_bytes, values, decoded, weights, activations)
                    if shape.sm100:
                        store_scales(shape, stacks)(
                            step,
                            thread,
                            expert,
                            part * WEIGHT_ROWS,
                            hidden_scales,
                            x_rows,
                            word,
                            weight_scales,
                            act_scales,
                        )
                    T.fence_proxy_async()
                    T.sync_threads()
                    if step + 1 < shape.steps:
                        load_weights(shape, stacks)(step + 1, thread, expert, part * WEIGHT_ROWS, words, scale_bytes)
                        load_activations(shape)(step + 1, thread, hidden, x_rows, values)
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
                for i in T.serial(T.ceildiv(tile_rows * WEIGHT_ROWS // 8, threads)):
                    row = (i * threads + thread) // (WEIGHT_ROWS // 8)
                    column = (i * threads + thread) % (WEIGHT_ROWS // 8) * 8
                    if (row < count) & (part * WEIGHT_ROWS + column < dim):
                        place = begin + row if shared else order[begin + row]
                        for v in T.vectorized(8):
                            out[place, part * WEIGHT_ROWS + column + v] = result[row, column + v]

    return down
