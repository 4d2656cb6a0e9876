"""Q8/32 of activation rows as the experts' kernels read them: codes and scale bytes, or the bf16 values of both."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.gated_hidden import group_scale, rounded_value
from tilelang_ops.numeric.e8m0 import invert_e8m0, magnitude_bits

_THREADS = 128


def round_rows_kernel(arch: str, dim: int, codes: bool) -> Any:
    """x bf16 [T, dim] -> y (e4m3 codes with scales, or exact bf16 values); eight columns a thread."""
    num_rows, scale_rows = T.dynamic("num_rows"), T.dynamic("scale_rows")
    y_dtype = "float8_e4m3fn" if codes else "bfloat16"

    @T.prim_func
    def round_rows(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        y: T.Tensor((num_rows, dim), y_dtype),
        scales: T.Tensor((scale_rows, dim // 32), "uint8"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * 8), threads=_THREADS) as (row, part):
            thread = T.get_thread_binding()
            column = part * _THREADS * 8 + thread * 8
            values = T.alloc_local((8,), "bfloat16")
            rounded = T.alloc_local((8,), y_dtype)
            amax = T.alloc_local((1,), "int32")
            amax[0] = 0
            if column < dim:
                for v in T.vectorized(8):
                    values[v] = x[row, column + v]
                for v in T.unroll(8):
                    amax[0] = T.max(amax[0], magnitude_bits(T.Cast("float32", values[v])))
            amax[0] = T.max(amax[0], T.shfl_xor(amax[0], 1))
            amax[0] = T.max(amax[0], T.shfl_xor(amax[0], 2))
            byte = group_scale(amax[0])
            if column < dim:
                for v in T.unroll(8):
                    value = T.Cast("float32", values[v])
                    rounded[v] = T.Cast(y_dtype, value * invert_e8m0(byte) if codes else rounded_value(value, byte))
                for v in T.vectorized(8):
                    y[row, column + v] = rounded[v]
                if codes and thread % 4 == 0:
                    scales[row, column // 32] = T.Cast("uint8", byte)

    return round_rows


def round_rows(x: torch.Tensor, *, codes: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """x bf16 [T, D] contiguous, D a multiple of 32 -> y [T, D], scales uint8 (one row that nobody reads for values).

    Args:
        x: rows.
        codes: e4m3 codes and E8M0 bytes; else bf16 code * 2^(scale-127), which is exact.
    """
    y = torch.empty_like(x, dtype=torch.float8_e4m3fn if codes else x.dtype)
    scales = torch.empty((x.shape[0] if codes else 1, x.shape[1] // 32), dtype=torch.uint8, device=x.device)
    if x.shape[0]:
        compiled(round_rows_kernel, arch_of(x.device), dim=x.shape[1], codes=codes)(x, y, scales)
    return y, scales


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both outcomes."""
    return [
        KernelSpec("moe.round_rows", round_rows_kernel, {"dim": sizes.hidden_size, "codes": codes})
        for codes in (False, True)
    ]
