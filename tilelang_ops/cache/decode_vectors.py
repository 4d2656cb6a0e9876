"""Vectors from the bytes a cache stores."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.cache.vector_quantizer import (
    COLUMNS,
    code_bytes,
    dequantize,
    group_size,
    unpacked_code,
    vector_bytes,
)
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def decode_vectors_kernel(arch: str, dim: int, rounding: str) -> Any:
    """Eight columns a thread."""
    num_rows = T.dynamic("num_rows")
    chunks, num_bytes = dim // COLUMNS, vector_bytes(rounding, dim)
    data_bytes, group_threads = code_bytes(rounding, COLUMNS), group_size(rounding) // COLUMNS
    width = math.gcd(num_bytes, data_bytes)

    @T.prim_func
    def decode_vectors(data: T.Tensor((num_rows, num_bytes), "uint8"), out: T.Tensor((num_rows, dim), "float32")):
        with T.Kernel(T.ceildiv(num_rows * chunks, _THREADS), threads=_THREADS) as block:
            packed = T.alloc_local((data_bytes,), "uint8")
            scale = T.alloc_local((1,), "int32")
            values = T.alloc_local((COLUMNS,), "float32")
            index = block * _THREADS + T.get_thread_binding()
            row = index // chunks
            chunk = index % chunks
            if row < num_rows:
                for part in T.unroll(data_bytes // width):
                    for i in T.vectorized(width):
                        packed[part * width + i] = data[row, chunk * data_bytes + part * width + i]
                scale[0] = T.Cast("int32", data[row, code_bytes(rounding, dim) + chunk // group_threads])
                for i in range(COLUMNS):
                    values[i] = dequantize(rounding, unpacked_code(rounding, packed, i), scale[0])
                for part in T.unroll(2):
                    for i in T.vectorized(4):
                        out[row, chunk * COLUMNS + part * 4 + i] = values[part * 4 + i]

    return decode_vectors


def decode_vectors(data: torch.Tensor, dim: int, rounding: str) -> torch.Tensor:
    """data uint8 [n, bytes] contiguous, d a multiple of 32 -> float32 [n, d]. `rounding` as in `vector_quantizer`."""
    out = torch.empty((data.shape[0], dim), dtype=torch.float32, device=data.device)
    if data.shape[0]:
        compiled(decode_vectors_kernel, arch_of(data.device), dim=dim, rounding=rounding)(data, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The formats of the window, of main entries and of index keys."""
    formats = [(sizes.head_dim, "fp8_group32"), (sizes.head_dim, "fp4_group16"), (sizes.index_head_dim, "fp4_group32")]
    return [
        KernelSpec("cache.decode_vectors", decode_vectors_kernel, {"dim": dim, "rounding": rounding})
        for dim, rounding in formats
    ]
