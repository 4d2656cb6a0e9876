"""Product of few rows with a weight matrix (GEMV): the weights pass once, straight from memory to registers."""

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.e8m0 import decode_e8m0

MAX_ROWS = 8  # more rows go to the tile form
_WARPS = 4


def row_product_kernel(
    arch: str, num_out: int, dim: int, num_groups: int, rows: int, quantized: bool, out_dtype: str
) -> Any:
    """``out[t, n] = sum_k x[t, g(n)*dim + k] * w[n, k]`` with g(n) the group of output n, float32 inside.

    A warp owns a few outputs: every lane loads 16 bytes of each weight row a step, decodes them once and multiplies
    them with all rows of x; the lanes' sums are joined at the end. The order of a row's sum does not depend on `rows`.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_out: weight rows N of all groups together.
        dim: columns of a group, a multiple of 16.
        num_groups: 1, or the block-diagonal groups.
        rows: rows of x a block multiplies.
        quantized: weights are e4m3 codes with E8M0 scales of 32x32 tiles (else bf16, and `scales` is not read).
        out_dtype: "bfloat16" or "float32".
    """
    num_rows = T.dynamic("num_rows")
    vector = 16 if quantized else 8  # 16 bytes of weights
    step = 32 * vector
    per_group = num_out // num_groups
    outputs = next(n for n in (4, 2, 1) if n == 1 or (num_out >= 4096 * n and per_group % n == 0))  # a warp
    per_block = _WARPS * outputs
    scale_shape = (-(-num_out // 32), -(-dim // 32)) if quantized else (1, 1)

    @T.macro
    def load_weights(weights: Any, scales: Any, values: Any, r: Any, row: Any, column: Any):
        """`vector` weights of one row as float32, into `values[r]`."""
        codes = T.alloc_local((vector,), "float8_e4m3fn" if quantized else "bfloat16")
        for i in T.vectorized(vector):
            codes[i] = weights[row, column + i]
        scale = decode_e8m0(scales[row // 32, column // 32]) if quantized else T.float32(1)
        for i in T.vectorized(vector):
            values[r, i] = T.Cast("float32", codes[i]) * scale if quantized else T.Cast("float32", codes[i])

    @T.prim_func
    def row_product(
        x: T.Tensor((num_rows, num_groups * dim), "bfloat16"),
        weights: T.Tensor((num_out, dim), "float8_e4m3fn" if quantized else "bfloat16"),
        scales: T.Tensor(scale_shape, "uint8"),
        out: T.Tensor((num_rows, num_out), out_dtype),
    ):
        with T.Kernel(T.ceildiv(num_out, per_block), T.ceildiv(num_rows, rows), threads=32 * _WARPS) as (part, rank):
            thread = T.get_thread_binding()
            lane = thread % 32
            first = part * per_block + thread // 32 * outputs
            group = T.min(first, num_out - 1) // per_group
            w = T.alloc_local((outputs, vector), "float32")
            v = T.alloc_local((vector,), "bfloat16")
            total = T.alloc_local((rows, outputs), "float32")
            for t, r in T.grid(rows, outputs):
                total[t, r] = 0.0
            for s in T.serial(T.ceildiv(dim, step)):
                column = s * step + lane * vector
                if column < dim:
                    for r in T.unroll(outputs):
                        load_weights(weights, scales, w, r, T.min(first + r, num_out - 1), column)
                    for t in T.unroll(rows):
                        for i in T.vectorized(vector):
                            v[i] = x[T.min(rank * rows + t, num_rows - 1), group * dim + column + i]
                        for r, i in T.grid(outputs, vector):
                            total[t, r] += w[r, i] * T.Cast("float32", v[i])
            for t, r in T.grid(rows, outputs):
                total[t, r] = T.warp_reduce_sum(total[t, r])
            if lane == 0:
                for t, r in T.grid(rows, outputs):
                    if rank * rows + t < num_rows and first + r < num_out:
                        out[rank * rows + t, first + r] = T.Cast(out_dtype, total[t, r])

    return row_product
