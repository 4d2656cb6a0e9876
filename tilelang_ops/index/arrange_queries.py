"""Query heads in the order in which the matrix instruction gets the columns of a packed key."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.index.key_words import FOLD, WORDS_ARCH, column_of, padded_heads, takes_words
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes


def arrange_queries_kernel(arch: str, num_heads: int, dim: int, dtype: str) -> Any:
    """Queries in the order of `column_of`, times 2^63 (exactly), zeros for heads that do not exist: bf16."""
    num_rows = T.dynamic("num_rows")
    threads, padded = 128, padded_heads(num_heads)
    chunks = padded * dim // 8

    @T.prim_func
    def arrange_queries(
        q: T.Tensor((num_rows, num_heads, dim), dtype), out: T.Tensor((num_rows, padded, dim), "bfloat16")
    ):
        with T.Kernel(num_rows, T.ceildiv(chunks, threads), threads=threads) as (row, block):
            values = T.alloc_local((8,), "bfloat16")
            place = block * threads + T.get_thread_binding()
            head, first = place // (dim // 8), place % (dim // 8) * 8
            if place < chunks:
                for i in T.unroll(8):
                    values[i] = T.Cast("bfloat16", 0)
                if head < num_heads:
                    for i in T.unroll(8):
                        value = T.Cast("float32", q[row, head, column_of(first + i, dim)])
                        values[i] = T.Cast("bfloat16", value * T.float32(2.0**FOLD))
                for i in T.vectorized(8):
                    out[row, head, first + i] = values[i]

    return arrange_queries


def arrange_queries(q: torch.Tensor) -> torch.Tensor:
    """Queries for `row_scores` and `tile_scores`.

    Args:
        q: float32 or bf16 [T, Hi, di] contiguous, of values that bf16 has; di a multiple of 128.

    Returns:
        bf16 [T, Hi rounded up to 16, di].
    """
    num_rows, heads, dim = q.shape
    out = torch.empty(num_rows, padded_heads(heads), dim, dtype=torch.bfloat16, device=q.device)
    if num_rows:
        dtype = str(q.dtype).removeprefix("torch.")
        compiled(arrange_queries_kernel, arch_of(q.device), num_heads=heads, dim=dim, dtype=dtype)(q, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """From float32, as the model gives them."""
    if not takes_words(sizes.index_n_heads, sizes.index_head_dim):
        return []
    statics = {"num_heads": sizes.index_n_heads, "dim": sizes.index_head_dim, "dtype": "float32"}
    return [KernelSpec("index.arrange_queries", arrange_queries_kernel, statics, arches=(WORDS_ARCH,))]
