"""Hyper-connections: the vector a sublayer reads from the streams."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.tree_sum import tree_sum

_THREADS = 128
_COLUMNS = 8


def hc_read_kernel(arch: str, dim: int, num_streams: int, out_dtype: str) -> Any:
    """``sum_i pre[i] * streams[i]``: eight columns a thread, streams added in the order of the reference's tree."""
    num_rows = T.dynamic("num_rows")
    store = 8 if out_dtype == "bfloat16" else 4

    @T.prim_func
    def hc_read(
        streams: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        pre: T.Tensor((num_rows, num_streams), "float32"),
        out: T.Tensor((num_rows, dim), out_dtype),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * _COLUMNS), threads=_THREADS) as (row, block):
            values = T.alloc_local((num_streams * _COLUMNS,), "bfloat16")
            result = T.alloc_local((_COLUMNS,), out_dtype)
            column = (block * _THREADS + T.get_thread_binding()) * _COLUMNS
            if column < dim:
                for stream in T.unroll(num_streams):
                    for i in T.vectorized(_COLUMNS):
                        values[stream * _COLUMNS + i] = streams[row, stream, column + i]
                for i in T.unroll(_COLUMNS):
                    result[i] = T.Cast(
                        out_dtype,
                        tree_sum(
                            [
                                T.ieee_mul(T.Cast("float32", values[s * _COLUMNS + i]), pre[row, s])
                                for s in range(num_streams)
                            ]
                        ),
                    )
                for part in T.unroll(_COLUMNS // store):
                    for i in T.vectorized(store):
                        out[row, column + part * store + i] = result[part * store + i]

    return hc_read


def hc_read(streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """streams bf16 [T, S, D] contiguous, D a multiple of 8, pre float32 [T, S] -> bf16 or float32 [T, D]."""
    num_rows, num_streams, dim = streams.shape
    out = torch.empty((num_rows, dim), dtype=out_dtype, device=streams.device)
    if num_rows:
        statics = {"dim": dim, "num_streams": num_streams, "out_dtype": str(out_dtype).removeprefix("torch.")}
        compiled(hc_read_kernel, arch_of(streams.device), **statics)(streams, pre, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The read of a sublayer, and the float32 one of the stream mean."""
    return [
        KernelSpec(
            "hyper_connection.hc_read",
            hc_read_kernel,
            {"dim": sizes.hidden_size, "num_streams": sizes.num_streams, "out_dtype": dtype},
        )
        for dtype in ("bfloat16", "float32")
    ]
