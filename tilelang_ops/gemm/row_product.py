"""Product of few rows with a weight matrix (GEMV): the weights pass once, straight from memory to registers."""

from typing import Any

import tilelang.language as T

from tilelang_ops.numeric.e8m0 import decode_e8m0

MAX_ROWS = 8  # more rows go to the tile form
_WARPS = 4
_LOADS = 4  # 16-byte loads of weights that a lane has in flight


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
    depth = max(1, min(_LOADS // outputs, dim // step))  # steps whose weights are loaded together
    per_block = _WARPS * outputs
    scale_shape = (-(-num_out // 32), -(-dim // 32)) if quantized else (1, 1)

    @T.macro
    def load_weights(codes: Any, scale_bytes: Any, weights: Any, scales: Any, slot: Any, row: Any, column: Any):
        """`vector` weights of one row, and the byte of their scale, into a slot."""
        for i in T.vectorized(vector):
            codes[slot, i] = weights[row, column + i]
        if quantized:
            scale_bytes[slot] = scales[row // 32, column // 32]

    @T.macro
    def decode_weights(values: Any, codes: Any, scale_bytes: Any, r: Any, slot: Any):
        """The weights of a slot as float32."""
        scale = decode_e8m0(scale_bytes[slot]) if quantized else T.float32(1)
        for i in T.vectorized(vector):
            value = T.Cast("float32", codes[slot, i])
            values[r, i] = value * scale if quantized else value

    @T.prim_func
    def row_product(
        x: T.Tensor((num_rows, num_groups * dim), "bfloat16"),
        weights: T.Tensor((num_out, dim), "float8_e4m3fn" if quantized else "bfloat16"),
        scales: T.Tensor(scale_shape, "uint8"),
        out: T.Tensor((num_rows, num_out), out_dtype),
    ):
        with T.Kernel(T.ceildiv(num_out, per_block), T.ceildiv(num_rows, rows), threads=32 * _WARPS) as (part, rank):
            T.assume(num_rows > 0)
            thread = T.get_thread_binding()
            lane = thread % 32
            first = part * per_block + thread // 32 * outputs
            group = T.min(first, num_out - 1) // per_group
            codes = T.alloc_local((depth * outputs, vector), "float8_e4m3fn" if quantized else "bfloat16")
            scale_bytes = T.alloc_local((depth * outputs,), "uint8")
            w = T.alloc_local((outputs, vector), "float32")
            v = T.alloc_local((vector,), "bfloat16")
            total = T.alloc_local((rows, outputs), "float32")
            for t, r in T.grid(rows, outputs):
                total[t, r] = 0.0
            for s in T.serial(T.ceildiv(dim, step * depth)):
                for q in T.unroll(depth):  # all loads of weights before the first use
                    if (s * depth + q) * step + lane * vector < dim:
                        for r in T.unroll(outputs):
                            row = T.min(first + r, num_out - 1)
                            column = (s * depth + q) * step + lane * vector
                            load_weights(codes, scale_bytes, weights, scales, q * outputs + r, row, column)
                for q in T.unroll(depth):
                    column = (s * depth + q) * step + lane * vector
                    if column < dim:
                        for r in T.unroll(outputs):
                            decode_weights(w, codes, scale_bytes, r, q * outputs + r)
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
