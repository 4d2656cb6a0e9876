"""The best score of every block of consecutive entries."""

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
_LINE_BYTES = 16  # read at once, and what rows of maxima are a multiple of


def block_maxima_kernel(arch: str, block_size: int, dtype: str) -> Any:
    """Maximum of a block's visible scores, NaN as -inf; +inf for the newest visible block, which is always chosen.

    One thread a block of entries; what is behind the newest block is not written.
    """
    num_rows, num_vectors, stride = T.dynamic("num_rows"), T.dynamic("num_vectors"), T.dynamic("stride")
    vector = math.gcd(block_size, _LINE_BYTES // getattr(torch, dtype).itemsize)

    @T.prim_func
    def block_maxima(
        scores: T.Tensor((num_rows, num_vectors, vector), dtype),
        num_visible: T.Tensor((num_rows,), "int64"),
        maxima: T.Tensor((num_rows, stride), dtype),
    ):
        with T.Kernel(T.ceildiv(stride, _THREADS), num_rows, threads=_THREADS) as (part, row):
            block = part * _THREADS + T.get_thread_binding()
            values = T.alloc_local((block_size,), dtype)
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
                maxima[row, block] = T.Cast(dtype, best)

    return block_maxima


def block_maxima(scores: torch.Tensor, num_visible: torch.Tensor, *, max_visible: int, block_size: int) -> torch.Tensor:
    """Maxima by which blocks compete.

    Args:
        scores: float32 or bf16 [T, N] contiguous, rows a multiple of 16 bytes (or of a block, if that is shorter);
            what is behind a row's num_visible is not looked at.
        num_visible: int64 [T], at most `max_visible`, which is at most N.
        block_size: entries per block.

    Returns:
        [T, M] in the scores' dtype, M the least number not below max_visible / block_size whose rows are a multiple of
        16 bytes. Blocks with nothing visible hold anything.
    """
    num_rows, line = scores.shape[0], _LINE_BYTES // scores.itemsize
    stride = -(-max_visible // (line * block_size)) * line
    maxima = scores.new_empty(num_rows, stride)
    if maxima.numel():
        dtype = str(scores.dtype).removeprefix("torch.")
        kernel = compiled(block_maxima_kernel, arch_of(scores.device), block_size=block_size, dtype=dtype)
        kernel(scores.view(num_rows, -1, math.gcd(block_size, line)), num_visible, maxima)
    return maxima


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The candidate blocks, of float32 scores and of bf16 ones."""
    statics, name = {"block_size": sizes.candidate_block_size}, "index.block_maxima"
    specs = [KernelSpec(name, block_maxima_kernel, statics | {"dtype": "float32"})]
    if takes_words(sizes.index_n_heads, sizes.index_head_dim):
        specs.append(KernelSpec(name, block_maxima_kernel, statics | {"dtype": "bfloat16"}, arches=(WORDS_ARCH,)))
    return specs
