"""Second half of the experts for few rows: dot products from packed weights, written back in assignment order."""

from typing import Any

import tilelang.language as T

from tilelang_ops.moe.gate_up_few import FEW_ROWS
from tilelang_ops.moe.row_dots import row_dots
from tilelang_ops.moe.weight_words import PRELUDE, codes_per_word, words_per_group

_WARPS = 8
_PER_WARP = 4  # output columns, all at once


def down_few_kernel(arch: str, dim: int, hidden_dim: int, shared: bool) -> Any:
    """As `down_kernel` with tiles of 4 rows and bf16 values on every architecture; a block does 32 columns."""
    num_places, num_tiles, num_assigned = T.dynamic("num_places"), T.dynamic("num_tiles"), T.dynamic("num_assigned")
    num_experts = T.dynamic("num_experts")
    words_shape = (dim, hidden_dim // codes_per_word(shared))
    scales_shape = (-(-dim // 32) if shared else dim, hidden_dim // 32)

    @T.prim_func
    def down_few(
        hidden: T.Tensor((num_places, hidden_dim), "bfloat16"),
        order: T.Tensor((num_assigned,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        w2: T.Tensor((num_experts, *words_shape), "int32"),
        s2: T.Tensor((num_experts, *scales_shape), "uint8"),
        out: T.Tensor((num_places, dim), "bfloat16"),
    ):
        with T.Kernel(
            T.ceildiv(num_places, FEW_ROWS) if shared else num_tiles,
            dim // (_WARPS * _PER_WARP),
            threads=_WARPS * 32,
        ) as (tile, part):
            T.import_source(PRELUDE)
            T.annotate_min_blocks_per_sm(2)
            thread = T.get_thread_binding()
            x_rows = T.alloc_shared((FEW_ROWS,), "int32")
            words = T.alloc_local((_PER_WARP * words_per_group(shared),), "int32")
            scales = T.alloc_local((_PER_WARP,), "float32")
            values = T.alloc_local((8,), "bfloat16")
            partial = T.alloc_local((_PER_WARP * FEW_ROWS,), "float32")
            sums = T.alloc_local((_PER_WARP * FEW_ROWS,), "float32")
            rounded = T.alloc_local((_PER_WARP,), "bfloat16")
            lane = thread % 32
            first = (part * _WARPS + thread // 32) * _PER_WARP
            count = T.min(num_places - tile * FEW_ROWS, FEW_ROWS) if shared else tile_count[tile]
            begin = tile * FEW_ROWS if shared else tile_begin[tile]
            expert = T.int32(0) if shared else tile_expert[tile]
            dots = row_dots(hidden_dim, shared, FEW_ROWS, tuple((w2, s2, i) for i in tuple(range(_PER_WARP))))
            if count > 0:
                if thread < count:
                    x_rows[thread] = begin + thread
                T.sync_threads()
                dots(lane, expert, first, dim, count, hidden, x_rows, words, scales, values, partial, sums)
                if lane == 0:
                    for r in T.unroll(FEW_ROWS):
                        if r < count:
                            place = begin + r if shared else order[begin + r]
                            for s in T.unroll(_PER_WARP):
                                rounded[s] = T.Cast("bfloat16", sums[r * _PER_WARP + s])
                            for s in T.vectorized(_PER_WARP):
                                out[place, first + s] = rounded[s]

    return down_few
