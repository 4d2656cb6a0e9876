"""Root-mean-square normalisation of rows."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.block_sum import block_sum, row_threads

_COLUMNS = 8


def rms_norm_kernel(arch: str, dim: int, has_weight: bool, out_dtype: str) -> Any:
    """``y = x * rsqrt(mean(x^2) + eps) * weight``, one row a block, float32 inside, one rounding."""
    num_rows = T.dynamic("num_rows")
    threads = row_threads(dim, _COLUMNS)
    stride = threads * _COLUMNS
    steps = -(-dim // stride)
    store = 8 if out_dtype == "bfloat16" else 4
    total = block_sum(threads)

    @T.prim_func
    def rms_norm(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        weight: T.Tensor((dim,), "bfloat16"),
        y: T.Tensor((num_rows, dim), out_dtype),
        eps: T.float32,
    ):
        with T.Kernel(num_rows, threads=threads) as row:
            values = T.alloc_local((steps * _COLUMNS,), "float32")
            squares = T.alloc_local((1,), "float32")
            factors = T.alloc_local((_COLUMNS,), "float32")
            result = T.alloc_local((_COLUMNS,), out_dtype)
            scratch = T.alloc_shared((threads // 32,), "float32")
            first = T.get_thread_binding() * _COLUMNS
            squares[0] = T.float32(0)
            for step in T.unroll(steps):
                if first + step * stride < dim:
                    for i in T.vectorized(_COLUMNS):
                        values[step * _COLUMNS + i] = T.Cast("float32", x[row, first + step * stride + i])
                    for i in T.unroll(_COLUMNS):
                        squares[0] = squares[0] + values[step * _COLUMNS + i] * values[step * _COLUMNS + i]
            total(squares, scratch)
            squares[0] = T.rsqrt(squares[0] / T.float32(dim) + eps)
            for step in T.unroll(steps):
                if first + step * stride < dim:
                    for i in T.unroll(_COLUMNS):
                        factors[i] = T.float32(1)
                    if has_weight:
                        for i in T.vectorized(_COLUMNS):
                            factors[i] = T.Cast("float32", weight[first + step * stride + i])
                    for i in T.unroll(_COLUMNS):
                        result[i] = T.Cast(out_dtype, values[step * _COLUMNS + i] * squares[0] * factors[i])
                    for part in T.unroll(_COLUMNS // store):
                        for i in T.vectorized(store):
                            y[row, first + step * stride + part * store + i] = result[part * store + i]

    return rms_norm


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype) -> torch.Tensor:
    """x bf16 [T, D] contiguous, D a multiple of 8, weight bf16 [D] or None -> bf16 or float32 [T, D]."""
    y = torch.empty(x.shape, dtype=out_dtype, device=x.device)
    if x.shape[0]:
        statics = {"has_weight": weight is not None, "out_dtype": str(out_dtype).removeprefix("torch.")}
        kernel = compiled(rms_norm_kernel, arch_of(x.device), dim=x.shape[1], **statics)
        kernel(x, x[0] if weight is None else weight, y, eps)
    return y


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """One per width that is normed and not stored at once."""
    widths = {width for width in (sizes.hidden_size, sizes.q_lora_rank, sizes.head_dim) if width % 8 == 0}
    return [
        KernelSpec("norm.rms_norm", rms_norm_kernel, {"dim": dim, "has_weight": True, "out_dtype": "bfloat16"})
        for dim in sorted(widths)
    ]
