"""The outputs of splits of the keys into the attention output."""

from __future__ import annotations

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes


def combine_splits_kernel(arch: str, num_heads: int, dim: int) -> Any:
    """One head of one row a thread block; splits are added in their order."""
    num_rows, num_splits = T.dynamic("num_rows"), T.dynamic("num_splits")

    @T.prim_func
    def combine_splits(
        parts: T.Tensor((num_rows, num_splits, num_heads, dim), "float32"),
        stats: T.Tensor((num_rows, num_splits, 2, num_heads), "float32"),
        out: T.Tensor((num_rows, num_heads, dim), "bfloat16"),
    ):
        with T.Kernel(num_rows, num_heads, threads=128 if dim % 512 == 0 else 32) as (row, head):
            output = T.alloc_fragment((dim,), "float32")
            maximum = T.alloc_var("float32", init=-T.infinity("float32"))
            total = T.alloc_var("float32", init=0.0)
            for part in T.serial(num_splits):
                maximum = T.max(maximum, stats[row, part, 0, head])
            T.clear(output)
            for part in T.serial(num_splits):
                share = T.exp2(stats[row, part, 0, head] - maximum)
                total += stats[row, part, 1, head] * share
                for i in T.Parallel(dim):
                    output[i] += parts[row, part, head, i] * share
            for i in T.Parallel(dim):
                out[row, head, i] = T.Cast("bfloat16", output[i] / total)

    return combine_splits


def combine_splits(parts: torch.Tensor, stats: torch.Tensor) -> torch.Tensor:
    """Joins softmaxes over disjoint keys.

    Args:
        parts: float32 [T, splits, H, d] sums of exp2(logit - maximum) times value.
        stats: float32 [T, splits, 2, H]: base-2 logit maximum, and sum of exp2(logit - maximum).

    Returns:
        bf16 [T, H, d].
    """
    num_rows, _, num_heads, dim = parts.shape
    out = torch.empty(num_rows, num_heads, dim, dtype=torch.bfloat16, device=parts.device)
    if num_rows:
        compiled(combine_splits_kernel, arch_of(parts.device), num_heads=num_heads, dim=dim)(parts, stats, out)
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One: heads and their width are fixed."""
    statics = {"num_heads": sizes.num_heads, "dim": sizes.head_dim}
    return [KernelSpec("attention.combine_splits", combine_splits_kernel, statics)]
