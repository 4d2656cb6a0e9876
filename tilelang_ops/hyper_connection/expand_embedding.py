"""The residual streams that a forward pass begins with."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128
_COLUMNS = 8


def expand_embedding_kernel(arch: str, dim: int, num_streams: int) -> Any:
    """Eight columns a thread: read once, written to every stream."""
    num_rows, vocab_size = T.dynamic("num_rows"), T.dynamic("vocab_size")

    @T.prim_func
    def expand_embedding(
        token_ids: T.Tensor((num_rows,), "int64"),
        table: T.Tensor((vocab_size, dim), "bfloat16"),
        streams: T.Tensor((num_rows, num_streams, dim), "bfloat16"),
        pre: T.Tensor((num_rows, num_streams), "float32"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * _COLUMNS), threads=_THREADS) as (row, block):
            values = T.alloc_local((_COLUMNS,), "bfloat16")
            token = T.alloc_local((1,), "int64")
            thread = T.get_thread_binding()
            column = (block * _THREADS + thread) * _COLUMNS
            token[0] = token_ids[row]
            if column < dim:
                for i in T.vectorized(_COLUMNS):
                    values[i] = table[token[0], column + i]
                for stream in T.unroll(num_streams):
                    for i in T.vectorized(_COLUMNS):
                        streams[row, stream, column + i] = values[i]
            if block == 0:
                for stream in T.unroll(num_streams):
                    if thread == stream:
                        pre[row, stream] = T.if_then_else(stream == 0, T.float32(1), T.float32(0))

    return expand_embedding


def expand_embedding(
    token_ids: torch.Tensor, table: torch.Tensor, num_streams: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """token_ids int64 [T], table bf16 [V, D], D a multiple of 8 -> streams bf16 [T, S, D], pre float32 [T, S]."""
    num_rows, dim = token_ids.shape[0], table.shape[1]
    streams = torch.empty((num_rows, num_streams, dim), dtype=torch.bfloat16, device=table.device)
    pre = torch.empty((num_rows, num_streams), dtype=torch.float32, device=table.device)
    if num_rows:
        kernel = compiled(expand_embedding_kernel, arch_of(table.device), dim=dim, num_streams=num_streams)
        kernel(token_ids, table, streams, pre)
    return streams, pre


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One."""
    statics = {"dim": sizes.hidden_size, "num_streams": sizes.num_streams}
    return [KernelSpec("hyper_connection.expand_embedding", expand_embedding_kernel, statics)]
