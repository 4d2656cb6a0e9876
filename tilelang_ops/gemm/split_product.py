"""Product of up to some dozens of rows with a weight matrix on tensor cores, its columns split over thread blocks."""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from tilelang_ops.gemm.tile_shape import TileShape
from tilelang_ops.numeric.e8m0 import decode_e8m0


@dataclass(frozen=True, slots=True)
class SplitShape:
    """How `split_product_kernel` cuts its work.

    Attributes:
        tile_out: outputs a block, a multiple of 64 up to 256.
        tile_rows: most rows of x: 16, 32 or 64.
        steps: of `TileShape.tile_dim` columns a block.
        stages: steps whose operands are on their way together.
        blocks: of a multiprocessor, at least.
    """

    tile_out: int
    tile_rows: int
    steps: int
    stages: int
    blocks: int


def split_product_kernel(
    arch: str, num_out: int, dim: int, num_groups: int, quantized: bool, shape: SplitShape, out_dtype: str
) -> Any:
    """Parts of ``out[t, n] = sum_k x[t, g(n)*dim + k] * w[n, k]``: sum z is that of the z-th split of the columns.

    Few rows take as long as the weights arrive, so all multiprocessors have to load: where the outputs are too few
    blocks, the columns are split, too. As in `tile_product_kernel` the weights are the operand with 64 rows a
    warpgroup, and FP8 weights are decoded in registers, exactly.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_out: weight rows N of all groups together, a multiple of 32 a group.
        dim: columns of a group, a multiple of 32.
        num_groups: 1, or the block-diagonal groups.
        quantized: weights are e4m3 codes with E8M0 scales of 32x32 tiles and x holds Q8/32 values; else both are bf16
            (and `scales` is not read).
        shape: how the work is cut.
        out_dtype: "bfloat16" or "float32"; the latter where there are several splits.
    """
    num_rows = T.dynamic("num_rows")
    tiles = TileShape(num_out, dim, num_groups, shape.tile_out, shape.tile_rows)
    tile_out, tile_rows, tile_dim = tiles.tile_out, tiles.tile_rows, tiles.tile_dim
    splits, groups = -(-tiles.steps // shape.steps), tile_dim // 32
    even = tiles.steps % shape.steps == 0
    scale_shape = (-(-num_out // 32), dim // 32) if quantized else (1, 1)
    weight_dtype = "float8_e4m3fn" if quantized else "bfloat16"

    @T.macro
    def load_scales(tile: Any, scales: Any, part: Any, first_step: Any) -> None:
        """E8M0 bytes of a block's weights into shared memory; none matters beyond the last row or column."""
        for i, j in T.Parallel(tile_out // 32, shape.steps * groups):
            row = T.min(tiles.first_out(part) // 32 + i, scale_shape[0] - 1)
            tile[i, j] = scales[row, T.min(first_step * groups + j, scale_shape[1] - 1)]

    @T.prim_func
    def split_product(
        x: T.Tensor((num_rows, num_groups * dim), "bfloat16"),
        weights: T.Tensor((num_out, dim), weight_dtype),
        scales: T.Tensor(scale_shape, "uint8"),
        out: T.Tensor((splits, num_rows, num_out), out_dtype),
    ):
        with T.Kernel(tiles.parts, splits, threads=2 * tile_out) as (part, split):
            T.annotate_min_blocks_per_sm(shape.blocks)
            w_tile = T.alloc_shared((tile_out, tile_dim), weight_dtype)
            x_tile = T.alloc_shared((tile_rows, tile_dim), "bfloat16")
            scale_tile = T.alloc_shared((tile_out // 32, shape.steps * groups), "uint8")
            w = T.alloc_fragment((tile_out, tile_dim), "bfloat16")
            total = T.alloc_fragment((tile_out, tile_rows), "float32")
            factor = T.alloc_local((groups,), "float32")
            thread = T.get_thread_binding()
            T.annotate_layout({w_tile: make_swizzled_layout(w_tile)})
            T.clear(total)
            if quantized:
                load_scales(scale_tile, scales, part, split * shape.steps)
            for s in T.Pipelined(
                shape.steps if even else T.min(shape.steps, tiles.steps - split * shape.steps),
                num_stages=shape.stages,
            ):
                column = (split * shape.steps + s) * tile_dim
                T.copy(weights[tiles.first_out(part), column], w_tile)
                T.copy(x[0, tiles.group(part) * dim + column], x_tile)
                if quantized:
                    for g in T.unroll(groups):  # two warps have 32 outputs
                        factor[g] = decode_e8m0(scale_tile[thread // 64, s * groups + g])
                    for g in tuple(range(groups)):
                        for i, j in T.Parallel(tile_out, 32):
                            w[i, g * 32 + j] = T.Cast("bfloat16", T.Cast("float32", w_tile[i, g * 32 + j]) * factor[g])
                    T.gemm(w, x_tile, total, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                else:
                    T.gemm(w_tile, x_tile, total, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(tile_out, tile_rows):
                output = tiles.first_out(part) + i
                if j < num_rows and output < (tiles.group(part) + 1) * tiles.per_group:
                    out[split, j, output] = T.Cast(out_dtype, total[i, j])

    return split_product
