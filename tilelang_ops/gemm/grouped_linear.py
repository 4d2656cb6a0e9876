"""Block-diagonal product with an FP8 weight matrix: every group of columns has its own weight rows."""

from functools import partial

import torch

from tilelang_ops.gemm.multiply import multiply_quantized, multiply_specs
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product


def grouped_linear(
    x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, out_dtype: torch.dtype, *, batch_invariant: bool
) -> torch.Tensor:
    """Q8/32 of group g of a row times weight rows g*R .. (g+1)*R, float32 accumulation, rounded once.

    Args:
        x: bf16 [T, G, K] contiguous, K a multiple of 32.
        codes: float8_e4m3fn [G*R, K] contiguous.
        scales: uint8 E8M0 [ceil(G*R/32), K/32].
        out_dtype: bf16 or float32.
        batch_invariant: one form for all T; else few rows take the row form, whose sums have another order.

    Returns:
        out_dtype [T, G*R].
    """
    return multiply_quantized(
        partial(quantize_for_product, x.view(x.shape[0], x.shape[1] * x.shape[2])),
        x.shape[0],
        codes,
        scales,
        num_groups=x.shape[1],
        out_dtype=out_dtype,
        batch_invariant=batch_invariant,
    )


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """The first half of the output projection."""
    num_out, dim = sizes.o_groups * sizes.o_lora_rank, sizes.num_heads * sizes.head_dim // sizes.o_groups
    name, groups = "gemm.grouped_linear", sizes.o_groups
    return multiply_specs(name, num_out, dim, num_groups=groups, quantized=True, out_dtype="bfloat16")
