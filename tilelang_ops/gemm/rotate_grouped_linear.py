"""Attention outputs to the low-rank output space: inverse rotation, quantization and block-diagonal product."""

from functools import partial
from typing import Any

import tilelang.language as T
import torch

from tilelang_ops.gemm.few_rows import few_specs, multiply_few, takes_few
from tilelang_ops.gemm.multiply import multiply_quantized, multiply_specs
from tilelang_ops.gemm.wide_rows import multiply_wide, takes_wide, wide_specs
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.compiled import compiled
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.numeric.group32 import COLUMNS_A_LANE, quantize_lane, store_lane
from tilelang_ops.numeric.rotate import rotate_lane_back

_THREADS = 128


def rotate_quantize_kernel(arch: str, num_heads: int, head_dim: int, rope_dim: int, rounded: bool) -> Any:
    """Inverse RoPE of every head's last columns, bf16 rounding, then Q8/32: one pass, eight columns a thread.

    Args:
        arch: "sm_90a" or "sm_100a"; the code is the same.
        num_heads: heads a row.
        head_dim: columns a head, a multiple of 32.
        rope_dim: columns at a head's end that rotate in pairs, a multiple of 8.
        rounded: `out` holds the values code * scale in bf16 (exact) instead of the e4m3 codes.
    """
    num_rows = T.dynamic("num_rows")
    dim = num_heads * head_dim
    out_dtype = "bfloat16" if rounded else "float8_e4m3fn"

    @T.prim_func
    def rotate_quantize(
        heads: T.Tensor((num_rows, dim), "bfloat16"),
        cos: T.Tensor((num_rows, rope_dim // 2), "float32"),
        sin: T.Tensor((num_rows, rope_dim // 2), "float32"),
        out: T.Tensor((num_rows, dim), out_dtype),
        scales: T.Tensor((num_rows, dim // 32), "uint8"),
    ):
        with T.Kernel(num_rows, T.ceildiv(dim, _THREADS * COLUMNS_A_LANE), threads=_THREADS) as (row, part):
            thread = T.get_thread_binding()
            values = T.alloc_local((COLUMNS_A_LANE,), "bfloat16")
            codes = T.alloc_local((COLUMNS_A_LANE,), "float8_e4m3fn")
            result = T.alloc_local((COLUMNS_A_LANE,), out_dtype)
            pair = T.alloc_local((2,), "float32")
            angle = T.alloc_local((2,), "float32")
            scale = T.alloc_local((1,), "int32")
            column = (part * _THREADS + thread) * COLUMNS_A_LANE
            tail = column % head_dim - (head_dim - rope_dim)
            for i in T.unroll(COLUMNS_A_LANE):
                values[i] = T.Cast("bfloat16", 0)
            if column < dim:
                for i in T.vectorized(COLUMNS_A_LANE):
                    values[i] = heads[row, column + i]
                if tail >= 0:
                    rotate_lane_back(values, pair, angle, cos, sin, row, tail // 2)
            quantize_lane(values, codes, result, scale, rounded)
            if column < dim:
                store_lane(row, column, result, scale, out, scales)

    return rotate_quantize


def rotate_grouped_linear(
    heads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    num_groups: int,
    out_dtype: torch.dtype,
    *,
    batch_invariant: bool,
) -> torch.Tensor:
    """Inverse RoPE (rounded to bf16), then Q8/32 of group g of a row times weight rows g*R .. (g+1)*R, float32
    accumulation, rounded once.

    Args:
        heads: bf16 [T, H, d] contiguous, d a multiple of 32.
        cos: float32 [T, r/2] contiguous; the last r columns of a head are interleaved pairs.
        sin: float32 [T, r/2] contiguous.
        codes: float8_e4m3fn [G*R, H*d/G] contiguous.
        scales: uint8 E8M0 [ceil(G*R/32), H*d/G/32].
        num_groups: G.
        out_dtype: bf16 or float32.
        batch_invariant: one form for all T; else few rows take forms whose sums have another order, and many the
            matrix library, for which both operands are recoded (`multiply_wide`).

    Returns:
        out_dtype [T, G*R].
    """
    if takes_few(heads.shape[0], *codes.shape, num_groups, batch_invariant):
        return multiply_few(heads.flatten(1), (cos, sin, heads.shape[2]), codes, scales, num_groups, out_dtype)
    many = out_dtype is torch.bfloat16 and not batch_invariant
    if many and takes_wide(heads.shape[0], *codes.shape, num_groups, arch_of(heads.device)):
        return multiply_wide(heads.flatten(1), (cos, sin, heads.shape[2]), codes, scales, num_groups)
    return multiply_quantized(
        partial(rotate_and_quantize, heads, cos, sin),
        heads.shape[0],
        codes,
        scales,
        num_groups=num_groups,
        out_dtype=out_dtype,
        batch_invariant=batch_invariant,
    )


def rotate_and_quantize(
    heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, rounded: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """heads bf16 [T, H, d], cos and sin float32 [T, r/2] -> Q8/32 of the rotated rows: codes, scales uint8 [T, H*d/32].

    `rounded` gives the values, bf16 [T, H*d] (exact), in place of the codes.
    """
    num_rows, num_heads, head_dim = heads.shape
    dim = num_heads * head_dim
    out_dtype = torch.bfloat16 if rounded else torch.float8_e4m3fn
    out = torch.empty((num_rows, dim), dtype=out_dtype, device=heads.device)
    scales = torch.empty((num_rows, dim // 32), dtype=torch.uint8, device=heads.device)
    statics = {"num_heads": num_heads, "head_dim": head_dim, "rope_dim": 2 * cos.shape[1], "rounded": rounded}
    if num_rows:
        kernel = compiled(rotate_quantize_kernel, arch_of(heads.device), **statics)
        kernel(heads.view(num_rows, dim), cos, sin, out, scales)
    return out, scales


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Both forms of the quantizer, and the block-diagonal product."""
    if sizes.rope_dim % 8:  # the reference op runs
        return []
    statics = {"num_heads": sizes.num_heads, "head_dim": sizes.head_dim, "rope_dim": sizes.rope_dim}
    quantizers = [
        KernelSpec(f"gemm.rotate_quantize.{form}", rotate_quantize_kernel, statics | {"rounded": rounded})
        for form, rounded in (("codes", False), ("values", True))
    ]
    num_out, dim = sizes.o_groups * sizes.o_lora_rank, sizes.num_heads * sizes.head_dim // sizes.o_groups
    name, options = "gemm.rotate_grouped_linear", {"num_groups": sizes.o_groups, "out_dtype": "bfloat16"}
    head = (sizes.head_dim, sizes.rope_dim)
    few = few_specs(name, num_out, dim, head=head, **options)
    wide = wide_specs(num_out, dim, num_groups=sizes.o_groups, head=head)
    return quantizers + few + multiply_specs(name, num_out, dim, quantized=True, **options) + wide
