"""Product of many rows with a weight matrix on the tensor cores (GEMM), SM100 body."""

from typing import Any

import tilelang.language as T

from tilelang_ops.gemm.tile_shape import TileShape

_STAGES = 3
_CHUNK = 128  # words of scales that one copy to tensor memory takes


def tile_product_sm100_kernel(shape: TileShape, quantized: bool, out_dtype: str) -> Any:
    """``out[t, n] = sum_k x[t, g(n)*dim + k] * w[n, k]`` with tcgen05, accumulator in tensor memory.

    Compiled, never run. Warp 0 loads tiles, warp 1 issues the products, warps 2 and 3 lay out the scales. FP8 operands
    go to the block-scaled product with one scale per row and 32 columns: the weights' 32x32 scales repeat over the
    rows.

    Args:
        shape: tiles of 128 outputs.
        quantized: x and weights are e4m3 codes, x with E8M0 scales per row and 32 columns, weights with those of 32x32
            tiles; else both are bf16 (and no scales are read).
        out_dtype: "bfloat16" or "float32".
    """
    num_rows = T.dynamic("num_rows")
    num_out, dim, num_groups = shape.num_out, shape.dim, shape.num_groups
    tile_out, tile_rows = shape.tile_out, shape.tile_rows
    dtype = "float8_e4m3fn" if quantized else "bfloat16"
    x_scale_shape = (num_rows, num_groups * dim // 32) if quantized else (1, 1)
    scale_shape = (-(-num_out // 32), dim // 32) if quantized else (1, 1)

    @T.macro
    def pack_scales(words: Any, stage: Any, place: Any, scales: Any, row: Any, column: Any):
        """The scales of the step's groups of 32 columns in one word, at its place for the copy to tensor memory.

        That copy wants rows r, r+32, r+64, r+96 side by side.
        """
        word = T.alloc_var("uint32")
        word = T.uint32(0)
        for g in T.unroll(shape.tile_dim // 32):
            word = word | (T.Cast("uint32", scales[row, column + g]) << T.Cast("uint32", 8 * g))
        words[stage, place % 32 * 4 + place // 32] = word

    @T.prim_func
    def tile_product_sm100(
        x: T.Tensor((num_rows, num_groups * dim), dtype),
        x_scales: T.Tensor(x_scale_shape, "uint8"),
        weights: T.Tensor((num_out, dim), dtype),
        scales: T.Tensor(scale_shape, "uint8"),
        out: T.Tensor((num_rows, num_out), out_dtype),
    ):
        with T.Kernel(shape.parts, T.ceildiv(num_rows, tile_rows), threads=128) as (part, rank):
            w_tile = T.alloc_shared((_STAGES, tile_out, shape.tile_dim), dtype)
            x_tile = T.alloc_shared((_STAGES, tile_rows, shape.tile_dim), dtype)
            w_words = T.alloc_shared((_STAGES, _CHUNK), "uint32")
            x_words = T.alloc_shared((_STAGES, _CHUNK), "uint32")
            product = T.alloc_tmem([tile_out, tile_rows], "float32")
            w_scales_tmem = T.alloc_tmem([_CHUNK, 4], "uint32")
            x_scales_tmem = T.alloc_tmem([_CHUNK, 4], "uint32")
            total = T.alloc_fragment((tile_out, tile_rows), "float32")
            loaded = T.alloc_barrier([32] * _STAGES)
            scaled = T.alloc_barrier([64] * _STAGES)
            consumed = T.alloc_barrier([1] * _STAGES)
            finished = T.alloc_barrier([1])
            T.assume(num_rows > 0)
            thread = T.get_thread_binding()
            first = shape.first_out(part)
            column = shape.group(part) * dim
            if thread < 32:
                for s in T.serial(shape.steps):
                    stage = s % _STAGES
                    T.mbarrier_wait_parity(consumed[stage], (s // _STAGES & 1) ^ 1)
                    T.tma_copy(
                        weights[first : first + tile_out, s * shape.tile_dim : (s + 1) * shape.tile_dim],
                        w_tile[stage, :, :],
                        barrier=loaded[stage],
                    )
                    T.tma_copy(
                        x[
                            rank * tile_rows : (rank + 1) * tile_rows,
                            column + s * shape.tile_dim : column + (s + 1) * shape.tile_dim,
                        ],
                        x_tile[stage, :, :],
                        barrier=loaded[stage],
                    )
                    T.mbarrier_arrive(loaded[stage])
            elif thread < 64:
                for s in T.serial(shape.steps):
                    stage = s % _STAGES
                    T.mbarrier_wait_parity(loaded[stage], s // _STAGES & 1)
                    if quantized:
                        T.mbarrier_wait_parity(scaled[stage], s // _STAGES & 1)
                        T.tcgen05_cp_warpx4(w_words[stage, :], w_scales_tmem)
                        T.tcgen05_cp_warpx4(x_words[stage, :], x_scales_tmem)
                        T.tcgen05_gemm_blockscaled(
                            w_tile[stage, :, :],
                            x_tile[stage, :, :],
                            product,
                            w_scales_tmem,
                            x_scales_tmem,
                            transpose_B=True,
                            mbar=consumed[stage],
                            clear_accum=s == 0,
                            k_start=0,
                            sf_a_granularity_k=32,
                            sf_b_granularity_k=32,
                        )
                    else:
                        T.tcgen05_gemm(
                            w_tile[stage, :, :],
                            x_tile[stage, :, :],
                            product,
                            transpose_B=True,
                            mbar=consumed[stage],
                            clear_accum=s == 0,
                        )
                T.tcgen05_mma_arrive(finished)
            elif quantized:
                for s in T.serial(shape.steps):
                    stage = s % _STAGES
                    T.mbarrier_wait_parity(consumed[stage], (s // _STAGES & 1) ^ 1)
                    for half in T.unroll(_CHUNK // 64):
                        place = half * 64 + thread - 64
                        scale_row = T.min(first + place, num_out - 1) // 32
                        x_row = T.min(rank * tile_rows + place, num_rows - 1)
                        group = s * (shape.tile_dim // 32)
                        pack_scales(w_words, stage, place, scales, scale_row, group)
                        pack_scales(x_words, stage, place, x_scales, x_row, column // 32 + group)
                    T.fence_proxy_async()
                    T.mbarrier_arrive(scaled[stage])
            T.mbarrier_wait_parity(finished, 0)
            T.copy(product, total)
            T.sync_threads()  # tensor memory is given back after the last warp's read
            shape.store(total, out, part, rank, num_rows)

    return tile_product_sm100
