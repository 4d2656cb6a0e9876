"""Sum of a row's expert outputs: rank by rank, then the shared expert, in float32, rounded once."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes

_THREADS = 128


def combine_kernel(arch: str, dim: int, top_k: int) -> Any:
    """out[t] = bf16(((routed[t, 0] + routed[t, 1]) + ...) + shared[t]); eight columns a thread."""
    num_rows = T.dynamic("num_rows")

    @T.prim_func
    def combine(
        routed: T.Tensor((num_rows, top_k, dim), "bfloat16"),
        shared: T.Tensor((num_rows, dim), "bfloat16"),
        out: T.Tensor((num_rows, dim), "bfloat16"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * 8), threads=_THREADS) as (row, part):
            column = part * _THREADS * 8 + T.get_thread_binding() * 8
            values = T.alloc_local(((top_k + 1) * 8,), "bfloat16")
            total = T.alloc_local((8,), "float32")
            if column < dim:
                for rank in tuple(range(top_k)):
                    for v in T.vectorized(8):
                        values[rank * 8 + v] = routed[row, rank, column + v]
                for v in T.vectorized(8):
                    values[top_k * 8 + v] = shared[row, column + v]
                for v in T.unroll(8):
                    total[v] = T.Cast("float32", values[v])
                for rank in tuple(range(1, top_k + 1)):
                    for v in T.unroll(8):
                        total[v] += T.Cast("float32", values[rank * 8 + v])
                for v in T.unroll(8):
                    values[v] = T.Cast("bfloat16", total[v])
                for v in T.vectorized(8):
                    out[row, column + v] = values[v]

    return combine


def combine(routed: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
    """routed bf16 [T, k, D] best first, shared bf16 [T, D] -> bf16 [T, D]."""
    out = torch.empty_like(shared)
    if shared.shape[0]:
        kernel = compiled(combine_kernel, arch_of(shared.device), dim=shared.shape[1], top_k=routed.shape[1])
        kernel(routed, shared, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One per number of experts a row."""
    return [
        KernelSpec("moe.combine", combine_kernel, {"dim": sizes.hidden_size, "top_k": top_k})
        for top_k in sorted({sizes.num_experts_per_tok, sizes.draft_num_experts_per_tok} - {0})
    ]
