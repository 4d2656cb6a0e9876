"""Q8/32: e4m3 codes with one power-of-two scale per 32 columns."""

from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.group32 import COLUMNS_A_LANE, quantize_lane, store_lane

_THREADS = 128


def quantize_fp8_group32_kernel(arch: str, dim: int, rounded: bool) -> Any:
    """x bf16 [T, dim] -> out [T, dim] and scales uint8 [T, ceil(dim/32)]; 1,024 columns a block, four lanes a group.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        dim: columns, a multiple of 8.
        rounded: `out` holds the values code * scale in bf16 (exact) instead of the e4m3 codes.
    """
    num_rows = T.dynamic("num_rows")
    out_dtype = "bfloat16" if rounded else "float8_e4m3fn"

    @T.prim_func
    def quantize_fp8_group32(
        x: T.Tensor((num_rows, dim), "bfloat16"),
        out: T.Tensor((num_rows, dim), out_dtype),
        scales: T.Tensor((num_rows, -(-dim // 32)), "uint8"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * COLUMNS_A_LANE), threads=_THREADS) as (row, part):
            thread = T.get_thread_binding()
            values = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            codes = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
            result = T.alloc_local((COLUMNS_A_LANE,), out_dtype)
            scale = T.alloc_local((1,), "int32")
            column = (part * _THREADS + thread) * COLUMNS_A_LANE
            for i in T.unroll(COLUMNS_A_LANE):
                values[i] = T.Cast("bfloat16", 0)
            if column < dim:
                for i in T.vectorized(COLUMNS_A_LANE):
                    values[i] = x[row, column + i]
            quantize_lane(values, codes, result, scale, rounded)
            if column < dim:
                store_lane(row, column, result, scale, out, scales)

    return quantize_fp8_group32


def quantize_fp8_group32(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x bf16 [T, K] contiguous, K a multiple of 8 -> codes float8_e4m3fn [T, K], scales uint8 [T, ceil(K/32)].

    Value = code * 2^(scale-127). A group with NaN or Inf gets scale byte 255.
    """
    return quantize_for_product(x, False)


def quantize_for_product(x: torch.Tensor, rounded: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """As `quantize_fp8_group32`; `rounded` gives the values, bf16 [T, K] (exact), in place of the codes."""
    num_rows, dim = x.shape
    out = torch.empty((num_rows, dim), dtype=torch.bfloat16 if rounded else torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((num_rows, -(-dim // 32)), dtype=torch.uint8, device=x.device)
    if num_rows:
        compiled(quantize_fp8_group32_kernel, arch_of(x.device), dim=dim, rounded=rounded)(x, out, scales)
    return out, scales


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both forms for every width that a quantized product reads."""
    widths = {
        sizes.hidden_size,
        sizes.q_lora_rank,
        sizes.o_lora_rank * sizes.o_groups,
        (sizes.engram_max_ngram_size - 1) * sizes.engram_n_heads * sizes.engram_head_dim,
        sizes.num_draft_features * sizes.hidden_size,
    }
    return [
        KernelSpec(
            f"quantize.quantize_fp8_group32.{form}", quantize_fp8_group32_kernel, {"dim": dim, "rounded": rounded}
        )
        for dim in sorted(width for width in widths if width > 0 and width % 32 == 0)
        for form, rounded in (("codes", False), ("values", True))
    ]
