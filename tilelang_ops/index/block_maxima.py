"""The best score of every block of consecutive entries."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def block_maxima_kernel(arch: str, block_size: int) -> Any:
    """Maximum of a block's visible scores, NaN as -inf; +inf for the newest visible block, which is always chosen.

    One thread a block of entries; what is behind the newest block is not written.
    """
    num_rows, num_vectors, stride = T.dynamic("num_rows"), T.dynamic("num_vectors"), T.dynamic("stride")
    vector = math.gcd(block_size, 4)

    @T.prim_func
    def block_maxima(
        scores: T.Tensor((num_rows, num_vectors, vector), "float32"),
        num_visible: T.Tensor((num_rows,), "int64"),
        maxima: T.Tensor((num_rows, stride), "float32"),
    ):
        with T.Kernel(T.ceildiv(stride, _THREADS), num_rows, threads=_THREADS) as (part, row):
            block = part * _THREADS + T.get_thread_binding()
            values = T.alloc_local((block_size,), "float32")
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
                    if block * block_size + i < visible and values[i] > best:
                        best = values[i]
                if (block + 1) * block_size >= visible:
                    best = T.infinity("float32")
                maxima[row, block] = best

    return block_maxima


def block_maxima(scores: torch.Tensor, num_visible: torch.Tensor, *, block_size: int) -> torch.Tensor:
    """Maxima by which blocks compete.

    Args:
        scores: float32 [T, N] contiguous; what is behind a row's num_visible is not looked at.
        num_visible: int64 [T], at most N.
        block_size: entries per block; N is a multiple of its greatest common divisor with 4.

    Returns:
        float32 [T, M], M the next multiple of 4 of ceil(N / block_size). Blocks with nothing visible hold anything.
    """
    num_rows, num_columns = scores.shape
    num_blocks = -(-num_columns // block_size)
    stride = -(-num_blocks // 4) * 4
    maxima = torch.empty(num_rows, stride, dtype=torch.float32, device=scores.device)
    if maxima.numel():
        kernel = compiled(block_maxima_kernel, arch_of(scores.device), block_size=block_size)
        kernel(scores.view(num_rows, -1, math.gcd(block_size, 4)), num_visible, maxima)
    return maxima


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The candidate blocks."""
    return [KernelSpec("index.block_maxima", block_maxima_kernel, {"block_size": sizes.candidate_block_size})]
