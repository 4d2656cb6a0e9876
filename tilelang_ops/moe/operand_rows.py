"""Activation rows as the experts' kernels for many rows read them: through Q8/32, in operand order."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.moe.stream_shape import operand_place, padded
from tilelang_ops.numeric.group32 import COLUMNS_A_LANE, quantize_lane

_THREADS = 128


def operand_rows_kernel(arch: str, dim: int) -> Any:
    """out[t, operand_place(c)] = the value of x[t, c] after Q8/32, zeros beyond `dim`; 1,024 columns a block."""
    num_rows = T.dynamic("num_rows")
    width = padded(dim)

    @T.prim_func
    def operand_rows(x: T.Tensor((num_rows, dim), "bfloat16"), out: T.Tensor((num_rows, width // 2), "int32")):
        with T.Kernel(num_rows, T.ceildiv(width, _THREADS * COLUMNS_A_LANE), threads=_THREADS) as (row, part):
            values = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            codes = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
            result = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            scale = T.alloc_local((1,), "int32")
            column = (part * _THREADS + T.get_thread_binding()) * COLUMNS_A_LANE
            for i in T.unroll(COLUMNS_A_LANE):
                values[i] = T.Cast("bfloat16", 0)
            if column < dim:
                for i in T.vectorized(COLUMNS_A_LANE):
                    values[i] = x[row, column + i]
            quantize_lane(values, codes, result, scale, True)
            if column < width:
                for i in T.unroll(4):  # columns i and i + 4 are neighbours
                    low = T.Cast("int32", T.reinterpret(result[i], "uint16"))
                    high = T.Cast("int32", T.reinterpret(result[i + 4], "uint16"))
                    out[row, operand_place(column + i) // 2] = low | (high << 16)

    return operand_rows


def operand_rows(x: torch.Tensor) -> torch.Tensor:
    """x bf16 [T, D] contiguous, D a multiple of 32 -> bf16 [T, padded(D)]."""
    out = torch.empty((x.shape[0], padded(x.shape[1])), dtype=torch.bfloat16, device=x.device)
    if x.shape[0]:
        compiled(operand_rows_kernel, arch_of(x.device), dim=x.shape[1])(x, out.view(torch.int32))
    return out


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """For the width of the model, where experts have kernels."""
    if sizes.moe_intermediate_size % 32 or sizes.hidden_size % 32:
        return []
    return [KernelSpec("moe.operand_rows", operand_rows_kernel, {"dim": sizes.hidden_size}, arches=("sm_90a",))]
