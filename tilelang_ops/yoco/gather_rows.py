"""Rows of a tensor by index: streams, read weights and inputs that consumer layers keep, keys of draft passes."""

import math
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128
_GROUP = 32  # elements of a packed vector that share a scale byte
_WORDS = 4  # of a thread: 16 bytes


def gather_rows_kernel(arch: str, words: int) -> Any:
    """Copies rows of `words` 4-byte words, 16 bytes a thread where the rows allow it."""
    num_rows, num_kept = T.dynamic("num_rows"), T.dynamic("num_kept")
    width = math.gcd(words, _WORDS)

    @T.prim_func
    def gather_rows(
        x: T.Tensor((num_rows, words), "int32"),
        index: T.Tensor((num_kept,), "int64"),
        out: T.Tensor((num_kept, words), "int32"),
    ):
        with T.Kernel(num_kept, T.ceildiv(words // width, _THREADS), threads=_THREADS) as (row, block):
            source = T.alloc_local((1,), "int64")
            word = (block * _THREADS + T.get_thread_binding()) * width
            source[0] = index[row]
            if word < words:
                for i in T.vectorized(width):
                    out[row, word + i] = x[source[0], word + i]

    return gather_rows


def gather_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """x [T, ...] contiguous with rows of a multiple of 4 bytes, index int64 [n] -> [n, ...], ``x[index]``."""
    out = torch.empty((index.shape[0], *x.shape[1:]), dtype=x.dtype, device=x.device)
    if out.numel():
        words = x[0].numel() * x.element_size() // 4
        kernel = compiled(gather_rows_kernel, arch_of(x.device), words=words)
        kernel(x.view(x.shape[0], -1).view(torch.int32), index, out.view(out.shape[0], -1).view(torch.int32))
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Streams, read weights, the input of the boundary layer's sublayer; with drafts, packed vectors of windows."""
    widths = [sizes.num_streams * sizes.hidden_size // 2, sizes.num_streams, sizes.hidden_size // 2]
    vector_bytes = sizes.head_dim + sizes.head_dim // _GROUP
    if sizes.num_drafts and vector_bytes % 4 == 0:
        widths.append(vector_bytes // 4)
    return [KernelSpec("yoco.gather_rows", gather_rows_kernel, {"words": words}) for words in widths]
