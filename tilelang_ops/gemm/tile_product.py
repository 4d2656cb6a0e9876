"""Product of many rows with a weight matrix on the tensor cores (GEMM): both bodies' entry, and the SM90 body."""

from typing import Any

import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from tilelang_ops.gemm.tile_product_sm100 import tile_product_sm100_kernel
from tilelang_ops.gemm.tile_shape import TileShape
from tilelang_ops.jit.arch import is_sm100
from tilelang_ops.numeric.e8m0 import decode_e8m0


def tile_product_kernel(
    arch: str, num_out: int, dim: int, num_groups: int, tile_rows: int, quantized: bool, out_dtype: str
) -> Any:
    """``out[t, n] = sum_k x[t, g(n)*dim + k] * w[n, k]`` on tensor cores, float32 accumulators.

    sm_100a: see `tile_product_sm100_kernel`. sm_90a: wgmma on bf16 operands, which hold dequantized values exactly.
    The weights are the operand with 64 rows a warpgroup, so that a tile may have few rows of x. FP8 weights go from
    shared memory to registers, are decoded there (exactly) and enter the product as the register operand: they are
    never stored again, and no barrier stands between the decoding and the product.

    Args:
        arch: "sm_90a" or "sm_100a".
        num_out: weight rows N of all groups together.
        dim: columns of a group, a multiple of 32.
        num_groups: 1, or the block-diagonal groups.
        tile_rows: rows of x a tile: 64 or 128.
        quantized: weights are e4m3 codes with E8M0 scales of 32x32 tiles and x holds Q8/32 values; else both are bf16
            (and `scales` is not read).
        out_dtype: "bfloat16" or "float32".
    """
    if is_sm100(arch):
        return tile_product_sm100_kernel(TileShape(num_out, dim, num_groups, 128, tile_rows), quantized, out_dtype)
    num_rows = T.dynamic("num_rows")
    shape = TileShape(num_out, dim, num_groups, 128 if tile_rows > 64 and num_out // num_groups > 64 else 64, tile_rows)
    scale_shape = (-(-num_out // 32), dim // 32) if quantized else (1, 1)
    weight_dtype = "float8_e4m3fn" if quantized else "bfloat16"

    @T.prim_func
    def tile_product(
        x: T.Tensor((num_rows, num_groups * dim), "bfloat16"),
        weights: T.Tensor((num_out, dim), weight_dtype),
        scales: T.Tensor(scale_shape, "uint8"),
        out: T.Tensor((num_rows, num_out), out_dtype),
    ):
        with T.Kernel(shape.parts, T.ceildiv(num_rows, tile_rows), threads=2 * shape.tile_out) as (part, rank):
            w_tile = T.alloc_shared((shape.tile_out, shape.tile_dim), weight_dtype)
            x_tile = T.alloc_shared((tile_rows, shape.tile_dim), "bfloat16")
            w = T.alloc_fragment((shape.tile_out, shape.tile_dim), "bfloat16")
            total = T.alloc_fragment((shape.tile_out, tile_rows), "float32")
            T.annotate_layout({w_tile: make_swizzled_layout(w_tile)})
            T.clear(total)
            for s in T.Pipelined(shape.steps, num_stages=3):
                T.copy(weights[shape.first_out(part), s * shape.tile_dim], w_tile)
                T.copy(x[rank * tile_rows, shape.group(part) * dim + s * shape.tile_dim], x_tile)
                if quantized:
                    for i, j in T.Parallel(shape.tile_out, shape.tile_dim):
                        scale_row = T.min(shape.first_out(part) + i, num_out - 1) // 32
                        scale = decode_e8m0(scales[scale_row, (s * shape.tile_dim + j) // 32])
                        w[i, j] = T.Cast("bfloat16", T.Cast("float32", w_tile[i, j]) * scale)
                    T.gemm(w, x_tile, total, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                else:
                    T.gemm(w_tile, x_tile, total, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            shape.store(total, out, part, rank, num_rows)

    return tile_product
