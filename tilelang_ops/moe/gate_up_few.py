"""First half of the experts for few rows: gate and up products, gated, weighted and rounded to bf16."""

from typing import Any

import tilelang.language as T

from tilelang_ops.jit.hand_synced import hand_synced
from tilelang_ops.moe.few_product import FEW_ROWS, FewShape, few_product
from tilelang_ops.moe.few_tiles import FewTiles
from tilelang_ops.moe.gated_hidden import gated_value
from tilelang_ops.moe.warp_words import SOURCE


@hand_synced
def gate_up_few_kernel(
    arch: str, dim: int, hidden_dim: int, single: bool, warps: int, row_tiles: int, occupancy: int
) -> Any:
    """hidden[p] = bf16(gated product of the row at sorted place p), before Q8/32; the shared expert's follow behind.

    The work, 8 * row_tiles hidden columns of a tile at a time, is split evenly over the blocks by the bytes of its
    weights, so that a block goes along the weights of an expert or two.
    """
    columns = 8 * row_tiles
    shape = FewShape(dim, warps, row_tiles, hidden_dim, hidden_dim // columns)
    num_rows, num_places, num_tiles = T.dynamic("num_rows"), T.dynamic("num_places"), T.dynamic("num_tiles")
    num_listed, num_words, num_scales = T.dynamic("num_listed"), T.dynamic("num_words"), T.dynamic("num_scales")
    shared_words, shared_scales = T.dynamic("shared_words"), T.dynamic("shared_scales")

    def row_of(unit: Any, lane: Any, stack: int) -> Any:
        return unit * columns + stack // 2 * 8 + lane // 4

    def enter_tile(fp8: bool, tiles: FewTiles, row_weights: Any, weight_of: Any, top_k: Any) -> Any:
        @T.macro
        def enter(thread: Any, tile: Any, count: Any, x_rows: Any) -> None:
            if thread < count:
                if fp8:
                    x_rows[thread] = tile * FEW_ROWS + thread
                    weight_of[thread] = 1.0
                else:
                    x_rows[thread] = tiles.assignment(tiles.begin(tile, fp8) + thread) // top_k
                    weight_of[thread] = row_weights[tiles.assignment(tiles.begin(tile, fp8) + thread)]

        return enter

    def finish_unit(fp8: bool, tiles: FewTiles, weight_of: Any, hidden: Any, limit: Any) -> Any:
        @T.macro
        def finish(place: Any, unit: Any, tile: Any, count: Any, total: Any) -> None:
            up = T.alloc_local((1,), "float32")
            total[0] = T.Cast("float32", T.Cast("bfloat16", total[0]))
            up[0] = T.shfl_down(total[0], 2)
            row = place // 4 % 4 * 2 + place % 4
            if (place % 4 < 2) & (row < count):
                value = gated_value(total[0], up[0], weight_of[row], limit)
                hidden[tiles.begin(tile, fp8) + row, unit * columns + place // 128 * 8 + place % 128 // 16] = T.Cast(
                    "bfloat16", value
                )

        return finish

    @T.prim_func
    def gate_up_few(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        ids: T.Tensor((num_listed,), "int64"),
        order: T.Tensor((num_listed,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tiles_used: T.Tensor((1,), "int32"),
        row_weights: T.Tensor((num_listed,), "float32"),
        w1: T.Tensor((num_words,), "int32"),
        s1: T.Tensor((num_scales,), "uint8"),
        w3: T.Tensor((num_words,), "int32"),
        s3: T.Tensor((num_scales,), "uint8"),
        shared_w1: T.Tensor((shared_words,), "int32"),
        shared_s1: T.Tensor((shared_scales,), "uint8"),
        shared_w3: T.Tensor((shared_words,), "int32"),
        shared_s3: T.Tensor((shared_scales,), "uint8"),
        hidden: T.Tensor((num_places, hidden_dim), "bfloat16"),
        num_assigned: T.int32,
        num_shared: T.int32,
        top_k: T.int32,
        limit: T.float32,
        blocks: T.int32,
    ):
        with T.Kernel(blocks, threads=shape.threads) as block:
            T.import_source(SOURCE)
            T.annotate_min_blocks_per_sm(occupancy)
            thread = T.get_thread_binding()
            rows = T.alloc_shared((shape.chunks * 8 * FEW_ROWS,), "bfloat16")
            x_rows = T.alloc_shared((FEW_ROWS,), "int32")
            weight_of = T.alloc_shared((FEW_ROWS,), "float32")
            sums = T.alloc_shared((2, warps, shape.row_tiles * 128), "float32")
            tiles = FewTiles(
                single, num_shared, num_assigned, ids, order, tile_expert, tile_begin, tile_count, tiles_used
            )
            for fp8, stacks in (
                (True, ((shared_w1, shared_s1), (shared_w3, shared_s3))),
                (False, ((w1, s1), (w3, s3))),
            ):
                few_product(
                    shape,
                    stacks * row_tiles,
                    fp8,
                    tiles,
                    row_of,
                    enter_tile(fp8, tiles, row_weights, weight_of, top_k),
                    finish_unit(fp8, tiles, weight_of, hidden, limit),
                )(thread, *tiles.share(block, blocks, shape.units, fp8), x, x_rows, rows, sums)

    return gate_up_few
