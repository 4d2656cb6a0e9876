"""Hyper-connections: the streams after a sublayer."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128
_COLUMNS = 8


def hc_write_kernel(arch: str, dim: int, num_streams: int) -> Any:
    """``new[j] = post[j] * out + sum_i comb[i][j] * streams[i]``: eight columns of all streams a thread."""
    num_rows = T.dynamic("num_rows")

    @T.prim_func
    def hc_write(
        streams: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        out: T.Tensor((num_rows, dim), "bfloat16"),
        post: T.Tensor((num_rows, num_streams), "float32"),
        comb: T.Tensor((num_rows, num_streams, num_streams), "float32"),
        written: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * _COLUMNS), threads=_THREADS) as (row, block):
            values = T.alloc_local((num_streams * _COLUMNS,), "bfloat16")
            own = T.alloc_local((_COLUMNS,), "bfloat16")
            total = T.alloc_local((_COLUMNS,), "float32")
            result = T.alloc_local((_COLUMNS,), "bfloat16")
            column = (block * _THREADS + T.get_thread_binding()) * _COLUMNS
            if column < dim:
                for stream in T.unroll(num_streams):
                    for i in T.vectorized(_COLUMNS):
                        values[stream * _COLUMNS + i] = streams[row, stream, column + i]
                for i in T.vectorized(_COLUMNS):
                    own[i] = out[row, column + i]
                for j in T.unroll(num_streams):
                    for i in T.unroll(_COLUMNS):
                        total[i] = post[row, j] * T.Cast("float32", own[i])
                    for stream in T.unroll(num_streams):
                        for i in T.unroll(_COLUMNS):
                            total[i] = total[i] + comb[row, stream, j] * T.Cast(
                                "float32", values[stream * _COLUMNS + i]
                            )
                    for i in T.unroll(_COLUMNS):
                        result[i] = T.Cast("bfloat16", total[i])
                    for i in T.vectorized(_COLUMNS):
                        written[row, j, column + i] = result[i]

    return hc_write


def hc_write(streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """streams bf16 [T, S, D], out bf16 [T, D], contiguous, D a multiple of 8, post float32 [T, S], comb float32
    [T, S, S] (first index summed over) -> new streams bf16 [T, S, D].
    """
    num_rows, num_streams, dim = streams.shape
    written = torch.empty_like(streams)
    if num_rows:
        kernel = compiled(hc_write_kernel, arch_of(streams.device), dim=dim, num_streams=num_streams)
        kernel(streams, out, post, comb, written)
    return written


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One."""
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams}
    return [KernelSpec("hyper_connection.hc_write", hc_write_kernel, statics)]
