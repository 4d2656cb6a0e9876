"""Rotary position embedding on the last columns of a vector."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.rotate import rotated_even, rotated_odd

_THREADS = 128
_COLUMNS = 8


def apply_rope_kernel(arch: str, dim: int, rope_dim: int, inverse: bool) -> Any:
    """Eight columns a thread; the columns before the last `rope_dim` are copied."""
    num_rows, num_vectors = T.dynamic("num_rows"), T.dynamic("num_vectors")
    chunks, first = dim // _COLUMNS, dim - rope_dim

    @T.prim_func
    def apply_rope(
        x: T.Tensor((num_rows, num_vectors, dim), "bfloat16"),
        cos: T.Tensor((num_rows, rope_dim // 2), "float32"),
        sin: T.Tensor((num_rows, rope_dim // 2), "float32"),
        out: T.Tensor((num_rows, num_vectors, dim), "bfloat16"),
    ):
        with T.Kernel(num_rows, T.ceildiv(num_vectors * chunks, _THREADS), threads=_THREADS) as (row, block):
            values = T.alloc_local((_COLUMNS,), "bfloat16")
            pair = T.alloc_local((2,), "float32")
            angle = T.alloc_local((2,), "float32")
            index = block * _THREADS + T.get_thread_binding()
            vector = index // chunks
            column = index % chunks * _COLUMNS
            if vector < num_vectors:
                for i in T.vectorized(_COLUMNS):
                    values[i] = x[row, vector, column + i]
                for i in T.unroll(_COLUMNS // 2):
                    if column + 2 * i >= first:
                        angle[0] = cos[row, (column + 2 * i - first) // 2]
                        angle[1] = sin[row, (column + 2 * i - first) // 2]
                        if inverse:
                            angle[1] = -angle[1]
                        pair[0] = T.Cast("float32", values[2 * i])
                        pair[1] = T.Cast("float32", values[2 * i + 1])
                        values[2 * i] = T.Cast("bfloat16", rotated_even(pair[0], pair[1], angle[0], angle[1]))
                        values[2 * i + 1] = T.Cast("bfloat16", rotated_odd(pair[0], pair[1], angle[0], angle[1]))
                for i in T.vectorized(_COLUMNS):
                    out[row, vector, column + i] = values[i]

    return apply_rope


def apply_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool) -> torch.Tensor:
    """x bf16 [T, H, d] contiguous, d a multiple of 8; cos, sin float32 [T, r/2] -> bf16 [T, H, d]."""
    out = torch.empty_like(x)
    if x.numel():
        statics = {"dim": x.shape[2], "rope_dim": 2 * cos.shape[1], "inverse": inverse}
        compiled(apply_rope_kernel, arch_of(x.device), **statics)(x, cos, sin, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Heads and index vectors; heads are rotated back by `rotate_grouped_linear`."""
    statics = {"rope_dim": sizes.rope_dim, "inverse": False}
    return [
        KernelSpec("rope.apply_rope", apply_rope_kernel, statics | {"dim": dim})
        for dim in sorted({sizes.head_dim, sizes.index_head_dim})
    ]
