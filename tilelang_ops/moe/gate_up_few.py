"""First half of the experts for few rows: dot products from packed weights, then gate, weight and quantizer."""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.gated_hidden import gated_value, group_scale, rounded_value
from tilelang_ops.moe.row_dots import row_dots
from tilelang_ops.moe.weight_words import PRELUDE, codes_per_word, words_per_group
from tilelang_ops.numeric.e8m0 import magnitude_bits

FEW_ROWS = 4  # activation rows of a tile
_WARPS = 8
_COLUMNS = 32  # hidden columns of a block: a Q8/32 group


def gate_up_few_kernel(arch: str, dim: int, hidden_dim: int, shared: bool) -> Any:
    """As `gate_up_kernel` with tiles of 4 rows and bf16 values on every architecture; a block does 32 hidden columns.

    A warp does two gate and the two matching up rows at a time.
    """
    num_rows, num_places, num_tiles = T.dynamic("num_rows"), T.dynamic("num_places"), T.dynamic("num_tiles")
    num_assigned, num_experts = T.dynamic("num_assigned"), T.dynamic("num_experts")
    words_shape = (hidden_dim, dim // codes_per_word(shared))
    scales_shape = (-(-hidden_dim // 32) if shared else hidden_dim, dim // 32)
    per_warp = _COLUMNS // _WARPS

    @T.prim_func
    def gate_up_few(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        row_weights: T.Tensor((num_assigned,), "float32"),
        w1: T.Tensor((num_experts, *words_shape), "int32"),
        s1: T.Tensor((num_experts, *scales_shape), "uint8"),
        w3: T.Tensor((num_experts, *words_shape), "int32"),
        s3: T.Tensor((num_experts, *scales_shape), "uint8"),
        hidden: T.Tensor((num_places, hidden_dim), "bfloat16"),
        top_k: T.int32,
        limit: T.float32,
    ):
        with T.Kernel(
            T.ceildiv(num_rows, FEW_ROWS) if shared else num_tiles, hidden_dim // _COLUMNS, threads=_WARPS * 32
        ) as (tile, part):
            T.import_source(PRELUDE)
            T.annotate_min_blocks_per_sm(2)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((FEW_ROWS,), "int32")
            weight_of = T.alloc_shared((FEW_ROWS,), "float32")
            result = T.alloc_shared((FEW_ROWS, 2 * _COLUMNS), "bfloat16")
            words = T.alloc_local((4 * words_per_group(shared),), "int32")
            scales = T.alloc_local((4,), "float32")
            values = T.alloc_local((8,), "bfloat16")
            partial = T.alloc_local((4 * FEW_ROWS,), "float32")
            sums = T.alloc_local((4 * FEW_ROWS,), "float32")
            amax = T.alloc_local((1,), "int32")
            warp, lane = thread // 32, thread % 32
            count = T.min(num_rows - tile * FEW_ROWS, FEW_ROWS) if shared else tile_count[tile]
            begin = tile * FEW_ROWS if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            dots = row_dots(dim, shared, FEW_ROWS, ((w1, s1, 0), (w3, s3, 0), (w1, s1, 1), (w3, s3, 1)))
            if count > 0:
                if thread < count:
                    if shared:
                        x_rows[thread] = begin + thread
                        weight_of[thread] = 1.0
                    else:
                        x_rows[thread] = order[begin + thread] // top_k
                        weight_of[thread] = row_weights[order[begin + thread]]
                T.sync_threads()
                for pair in T.serial(per_warp // 2):
                    column = warp * per_warp + pair * 2
                    dots(
                        lane,
                        expert,
                        part * _COLUMNS + column,
                        hidden_dim,
                        count,
                        x,
                        x_rows,
                        words,
                        scales,
                        values,
                        partial,
                        sums,
                    )
                    if lane == 0:
                        for r in T.unroll(FEW_ROWS):
                            if r < count:
                                for s in T.unroll(4):
                                    result[r, s % 2 * _COLUMNS + column + s // 2] = T.Cast("bfloat16", sums[r * 4 + s])
                T.sync_threads()
                if warp < count:
                    gate = T.Cast("float32", result[warp, lane])
                    up = T.Cast("float32", result[warp, _COLUMNS + lane])
                    partial[0] = T.Cast("float32", T.Cast("bfloat16", gated_value(gate, up, weight_of[warp], limit)))
                    amax[0] = T.warp_reduce_max(magnitude_bits(partial[0]))
                    hidden[begin + warp, part * _COLUMNS + lane] = T.Cast(
                        "bfloat16", rounded_value(partial[0], group_scale(amax[0]))
                    )

    return gate_up_few
