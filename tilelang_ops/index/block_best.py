"""The best bf16 score of every block of consecutive entries."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.index.key_words import WORDS_ARCH, takes_words
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def block_best_kernel(arch: str, block_size: int) -> Any:
    """Maximum of a block's visible scores; +inf for the newest visible block, which is always chosen.

    One thread a block of entries; what is behind the newest block is not written.
    """
    num_rows, num_vectors, stride = T.dynamic("num_rows"), T.dynamic("num_vectors"), T.dynamic("stride")
    vector = math.gcd(block_size, 8)

    @T.prim_func
    def block_best(
        scores: T.Tensor((num_rows, num_vectors, vector), "bfloat16"),
        num_visible: T.Tensor((num_rows,), "int64"),
        maxima: T.Tensor((num_rows, stride), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(stride, _THREADS), num_rows, threads=_THREADS) as (part, row):
            block = part * _THREADS + T.get_thread_binding()
            values = T.alloc_local((block_size,), "bfloat16")
            visible = T.alloc_var("int32")
            best = T.alloc_var("float32")
            visible = T.Cast("int32", num_visible[row])
            if block < stride and block * block_size < visible:
                best = -T.infinity("float32")
                for i in T.unroll(block_size // vector):
                    if block * block_size + i * vector < visible:
                        for v in T.vectorized(vector):
                            values[i * vector + v] = scores[row, block * (block_size // vector) + i, v]
                for i in T.unroll(block_size):
                    if block * block_size + i < visible and T.Cast("float32", values[i]) > best:
                        best = T.Cast("float32", values[i])
                if (block + 1) * block_size >= visible:
                    best = T.infinity("float32")
                maxima[row, block] = T.Cast("bfloat16", best)

    return block_best


def block_best(scores: torch.Tensor, num_visible: torch.Tensor, *, max_visible: int, block_size: int) -> torch.Tensor:
    """Maxima by which blocks compete.

    Args:
        scores: bf16 [T, N] contiguous, N a multiple of 8; what is behind a row's num_visible is not looked at.
        num_visible: int64 [T], at most `max_visible`, which is at most N.
        block_size: entries per block.

    Returns:
        bf16 [T, M], M the next multiple of 8 of ceil(max_visible / block_size). Blocks with nothing visible hold
        anything.
    """
    num_rows, stride = scores.shape[0], -(-max_visible // (8 * block_size)) * 8
    maxima = torch.empty(num_rows, stride, dtype=torch.bfloat16, device=scores.device)
    if maxima.numel():
        kernel = compiled(block_best_kernel, arch_of(scores.device), block_size=block_size)
        kernel(scores.view(num_rows, -1, math.gcd(block_size, 8)), num_visible, maxima)
    return maxima


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The candidate blocks."""
    if not takes_words(sizes.index_n_heads, sizes.index_head_dim):
        return []
    statics = {"block_size": sizes.candidate_block_size}
    return [KernelSpec("index.block_best", block_best_kernel, statics, arches=(WORDS_ARCH,))]
