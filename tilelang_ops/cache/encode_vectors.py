"""Vectors as the bytes a cache stores."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.cache.vector_quantizer import (
    COLUMNS,
    code_bytes,
    group_size,
    packed_byte,
    quantizer,
    vector_bytes,
)
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def encode_vectors_kernel(arch: str, dim: int, rounding: str, dtype: str) -> Any:
    """Eight columns a thread; the threads of a group find its scale together."""
    num_rows = T.dynamic("num_rows")
    chunks, num_bytes = dim // COLUMNS, vector_bytes(rounding, dim)
    group_threads = group_size(rounding) // COLUMNS
    data_bytes = code_bytes(rounding, COLUMNS)
    width = math.gcd(num_bytes, data_bytes)  # bytes of a store that are aligned in every row
    load = 16 // (2 if dtype == "bfloat16" else 4)
    quantize = quantizer(rounding)

    @T.prim_func
    def encode_vectors(x: T.Tensor((num_rows, dim), dtype), out: T.Tensor((num_rows, num_bytes), "uint8")):
        with T.Kernel(T.ceildiv(num_rows * chunks, _THREADS), threads=_THREADS) as block:
            values = T.alloc_local((COLUMNS,), "float32")
            codes = T.alloc_local((COLUMNS,), "int32")
            scale = T.alloc_local((1,), "int32")
            packed = T.alloc_local((data_bytes,), "uint8")
            index = block * _THREADS + T.get_thread_binding()
            row = index // chunks
            chunk = index % chunks
            for i in T.unroll(COLUMNS):
                values[i] = T.float32(0)
            if row < num_rows:
                for part in T.unroll(COLUMNS // load):
                    for i in T.vectorized(load):
                        values[part * load + i] = T.Cast("float32", x[row, chunk * COLUMNS + part * load + i])
            quantize(values, 0, codes, scale)
            for i in T.unroll(data_bytes):
                packed[i] = packed_byte(rounding, codes, i)
            if row < num_rows:
                for part in T.unroll(data_bytes // width):
                    for i in T.vectorized(width):
                        out[row, chunk * data_bytes + part * width + i] = packed[part * width + i]
                if chunk % group_threads == 0:
                    out[row, code_bytes(rounding, dim) + chunk // group_threads] = T.Cast("uint8", scale[0])

    return encode_vectors


def encode_vectors(x: torch.Tensor, rounding: str) -> torch.Tensor:
    """x bf16 or float32 [n, d] contiguous, d a multiple of 32 -> uint8 [n, bytes]: codes, then scales.

    `rounding` is "fp8_group32", "fp4_group32" or "fp4_group16".
    """
    num_rows, dim = x.shape
    out = torch.empty((num_rows, vector_bytes(rounding, dim)), dtype=torch.uint8, device=x.device)
    if num_rows:
        dtype = str(x.dtype).removeprefix("torch.")
        compiled(encode_vectors_kernel, arch_of(x.device), dim=dim, rounding=rounding, dtype=dtype)(x, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The formats of the window, of main entries and of index keys."""
    formats = [(sizes.head_dim, "fp8_group32"), (sizes.head_dim, "fp4_group16"), (sizes.index_head_dim, "fp4_group32")]
    return [
        KernelSpec("cache.encode_vectors", encode_vectors_kernel, {"dim": dim, "rounding": r, "dtype": "bfloat16"})
        for dim, r in formats
    ]
