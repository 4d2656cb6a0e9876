"""The values that are left after a quantizer and its inverse."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.cache.vector_quantizer import COLUMNS, dequantize, quantizer
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def round_vectors_kernel(arch: str, dim: int, rounding: str, dtype: str) -> Any:
    """Eight columns a thread; the threads of a group find its scale together."""
    num_rows = T.dynamic("num_rows")
    chunks = dim // COLUMNS
    load = 8 if dtype == "bfloat16" else 4
    quantize = quantizer(rounding)

    @T.prim_func
    def round_vectors(x: T.Tensor((num_rows, dim), dtype), out: T.Tensor((num_rows, dim), "float32")):
        with T.Kernel(T.ceildiv(num_rows * chunks, _THREADS), threads=_THREADS) as block:
            values = T.alloc_local((COLUMNS,), "float32")
            codes = T.alloc_local((COLUMNS,), "int32")
            scale = T.alloc_local((1,), "int32")
            index = block * _THREADS + T.get_thread_binding()
            row = index // chunks
            column = index % chunks * COLUMNS
            for i in T.unroll(COLUMNS):
                values[i] = T.float32(0)
            if row < num_rows:
                for part in T.unroll(COLUMNS // load):
                    for i in T.vectorized(load):
                        values[part * load + i] = T.Cast("float32", x[row, column + part * load + i])
            quantize(values, 0, codes, scale)
            for i in T.unroll(COLUMNS):
                values[i] = dequantize(rounding, codes[i], scale[0])
            if row < num_rows:
                for part in T.unroll(2):
                    for i in T.vectorized(4):
                        out[row, column + part * 4 + i] = values[part * 4 + i]

    return round_vectors


def round_vectors(x: torch.Tensor, rounding: str) -> torch.Tensor:
    """x bf16 or float32 [n, d] contiguous, d a multiple of 32 -> float32 [n, d]; `rounding`: see `vector_quantizer`."""
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    if x.shape[0]:
        dtype = str(x.dtype).removeprefix("torch.")
        compiled(round_vectors_kernel, arch_of(x.device), dim=x.shape[1], rounding=rounding, dtype=dtype)(x, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Index queries, the only vectors that are rounded and not stored."""
    statics = {"dim": sizes.index_head_dim, "rounding": "fp4_group32", "dtype": "bfloat16"}
    return [KernelSpec("cache.round_vectors", round_vectors_kernel, statics)]
