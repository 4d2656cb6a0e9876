"""Root-mean-square normalisation of rows."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes


def rms_norm_kernel(arch: str, dim: int, has_weight: bool) -> Any:
    """``y = x * rsqrt(mean(x^2) + eps) * weight``, one row a block, float32 inside, one rounding."""
    num_rows = T.dynamic("num_rows")
    threads = 128 if dim % 1024 == 0 else 32

    @T.prim_func
    def rms_norm(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        weight: T.Tensor((dim,), "bfloat16"),
        y: T.Tensor((num_rows, dim), "bfloat16"),
        eps: T.float32,
    ):
        with T.Kernel(num_rows, threads=threads) as row:
            values = T.alloc_fragment((1, dim), "float32")
            squares = T.alloc_fragment((1, dim), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(dim):
                values[0, i] = T.Cast("float32", x[row, i])
            for i in T.Parallel(dim):
                squares[0, i] = values[0, i] * values[0, i]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(dim):
                scaled = values[0, i] * T.rsqrt(total[0] / dim + eps)
                y[row, i] = T.Cast("bfloat16", scaled * T.Cast("float32", weight[i]) if has_weight else scaled)

    return rms_norm


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """x bf16 [T, D] contiguous, weight bf16 [D] or None -> bf16 [T, D]."""
    y = torch.empty_like(x)
    if x.shape[0]:
        kernel = compiled(rms_norm_kernel, arch_of(x.device), dim=x.shape[1], has_weight=weight is not None)
        kernel(x, x[0] if weight is None else weight, y, eps)
    return y


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One per normed width."""
    widths = {sizes.hidden_size, sizes.q_lora_rank, sizes.head_dim, sizes.index_head_dim}
    return [KernelSpec("norm.rms_norm", rms_norm_kernel, {"dim": d, "has_weight": True}) for d in sorted(widths)]
