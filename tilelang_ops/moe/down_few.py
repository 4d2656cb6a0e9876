"""Second half of the experts for few rows: hidden vectors through Q8/32, and the down product."""

from typing import Any

import tilelang.language as T

from tilelang_ops.jit.hand_synced import hand_synced
from tilelang_ops.moe.few_product import FEW_ROWS, FewShape, few_product
from tilelang_ops.moe.few_tiles import FewTiles
from tilelang_ops.moe.warp_words import SOURCE


@hand_synced
def down_few_kernel(
    arch: str, dim: int, hidden_dim: int, single: bool, warps: int, row_tiles: int, occupancy: int
) -> Any:
    """out[assignment at sorted place p] = bf16(w2 of its expert @ Q8/32 of hidden[p]); the shared one's follow behind.

    The work, 16 * row_tiles columns of a tile at a time, is split as in `gate_up_few_kernel`.
    """
    columns = 16 * row_tiles
    shape = FewShape(hidden_dim, warps, row_tiles, dim, dim // columns)
    num_places, num_tiles = T.dynamic("num_places"), T.dynamic("num_tiles")
    num_listed, num_words, num_scales = T.dynamic("num_listed"), T.dynamic("num_words"), T.dynamic("num_scales")
    shared_words, shared_scales = T.dynamic("shared_words"), T.dynamic("shared_scales")

    def row_of(unit: Any, lane: Any, stack: int) -> Any:
        return unit * columns + stack * 8 + lane // 4

    def enter_tile(fp8: bool, tiles: FewTiles) -> Any:
        @T.macro
        def enter(thread: Any, tile: Any, count: Any, x_rows: Any) -> None:
            if thread < count:
                x_rows[thread] = tiles.begin(tile, fp8) + thread

        return enter

    def finish_unit(fp8: bool, tiles: FewTiles, out: Any) -> Any:
        @T.macro
        def finish(place: Any, unit: Any, tile: Any, count: Any, total: Any) -> None:
            row = place // 4 % 4 * 2 + place % 2
            column = unit * columns + place // 128 * 16 + place % 4 // 2 * 8 + place % 128 // 16
            if row < count:
                first = tiles.begin(tile, fp8) + row
                out[first if fp8 else tiles.assignment(first), column] = T.Cast("bfloat16", total[0])

        return finish

    @T.prim_func
    def down_few(
        hidden: T.Tensor((num_places, hidden_dim), "bfloat16"),
        ids: T.Tensor((num_listed,), "int64"),
        order: T.Tensor((num_listed,), "int32"),
        tile_expert: T.Tensor((num_tiles,), "int32"),
        tile_begin: T.Tensor((num_tiles,), "int32"),
        tile_count: T.Tensor((num_tiles,), "int32"),
        tiles_used: T.Tensor((1,), "int32"),
        w2: T.Tensor((num_words,), "int32"),
        s2: T.Tensor((num_scales,), "uint8"),
        shared_w2: T.Tensor((shared_words,), "int32"),
        shared_s2: T.Tensor((shared_scales,), "uint8"),
        out: T.Tensor((num_places, dim), "bfloat16"),
        num_assigned: T.int32,
        num_shared: T.int32,
        blocks: T.int32,
    ):
        with T.Kernel(blocks, threads=shape.threads) as block:
            T.import_source(SOURCE)
            T.annotate_min_blocks_per_sm(occupancy)
            thread = T.get_thread_binding()
            rows = T.alloc_shared((shape.chunks * 8 * FEW_ROWS,), "bfloat16")
            x_rows = T.alloc_shared((FEW_ROWS,), "int32")
            sums = T.alloc_shared((2, warps, shape.row_tiles * 128), "float32")
            tiles = FewTiles(
                single, num_shared, num_assigned, ids, order, tile_expert, tile_begin, tile_count, tiles_used
            )
            for fp8, stack in ((True, (shared_w2, shared_s2)), (False, (w2, s2))):
                few_product(
                    shape,
                    (stack,) * (row_tiles * 2),
                    fp8,
                    tiles,
                    row_of,
                    enter_tile(fp8, tiles),
                    finish_unit(fp8, tiles, out),
                )(thread, *tiles.share(block, blocks, shape.units, fp8), hidden, x_rows, rows, sums)

    return down_few
