"""Hyper-connections: the normed vector that a sublayer reads from the streams."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.block_sum import block_sum, row_threads
from tilelang_ops.numeric.round_bf16 import round_bf16
from tilelang_ops.numeric.tree_sum import tree_sum

_COLUMNS = 8


def hc_read_norm_kernel(arch: str, dim: int, num_streams: int) -> Any:
    """One block a row: the weighted sum of the streams, rounded to bf16, stays in registers and is normed."""
    num_rows = T.dynamic("num_rows")
    threads = row_threads(dim, _COLUMNS)
    steps = -(-dim // (threads * _COLUMNS))
    total = block_sum(threads)

    @T.prim_func
    def hc_read_norm(
        streams: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        pre: T.Tensor((num_rows, num_streams), "float32"),
        weight: T.Tensor((dim,), "bfloat16"),
        out: T.Tensor((num_rows, dim), "bfloat16"),
        eps: T.float32,
    ):
        with T.Kernel(num_rows, threads=threads) as row:
            loaded = T.alloc_local((num_streams * _COLUMNS,), "bfloat16")
            values = T.alloc_local((steps * _COLUMNS,), "float32")
            squares = T.alloc_local((1,), "float32")
            factors = T.alloc_local((_COLUMNS,), "bfloat16")
            scratch = T.alloc_shared((threads // 32,), "float32")
            first = T.get_thread_binding() * _COLUMNS
            squares[0] = T.float32(0)
            for step in T.unroll(steps):
                if first + step * threads * _COLUMNS < dim:
                    for stream in T.unroll(num_streams):
                        for i in T.vectorized(_COLUMNS):
                            loaded[stream * _COLUMNS + i] = streams[row, stream, first + step * threads * _COLUMNS + i]
                    for i in T.unroll(_COLUMNS):
                        values[step * _COLUMNS + i] = round_bf16(
                            tree_sum(
                                [
                                    T.ieee_mul(T.Cast("float32", loaded[s * _COLUMNS + i]), pre[row, s])
                                    for s in range(num_streams)
                                ]
                            )
                        )
                        squares[0] = squares[0] + values[step * _COLUMNS + i] * values[step * _COLUMNS + i]
            total(squares, scratch)
            squares[0] = T.rsqrt(squares[0] / T.float32(dim) + eps)
            for step in T.unroll(steps):
                if first + step * threads * _COLUMNS < dim:
                    for i in T.vectorized(_COLUMNS):
                        factors[i] = weight[first + step * threads * _COLUMNS + i]
                    for i in T.unroll(_COLUMNS):
                        factors[i] = T.Cast(
                            "bfloat16", values[step * _COLUMNS + i] * squares[0] * T.Cast("float32", factors[i])
                        )
                    for i in T.vectorized(_COLUMNS):
                        out[row, first + step * threads * _COLUMNS + i] = factors[i]

    return hc_read_norm


def hc_read_norm(streams: torch.Tensor, pre: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """streams bf16 [T, S, D] contiguous, D a multiple of 8, pre float32 [T, S], weight bf16 [D] -> bf16 [T, D]."""
    num_rows, num_streams, dim = streams.shape
    out = torch.empty((num_rows, dim), dtype=torch.bfloat16, device=streams.device)
    if num_rows:
        kernel = compiled(hc_read_norm_kernel, arch_of(streams.device), dim=dim, num_streams=num_streams)
        kernel(streams, pre, weight, out, eps)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One."""
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams}
    return [KernelSpec("hyper_connection.hc_read_norm", hc_read_norm_kernel, statics)]
