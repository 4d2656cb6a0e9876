"""Product with an FP8 weight matrix with scales of 32x32 tiles."""

from functools import partial

import torch

from tilelang_ops.gemm.few_rows import few_specs, multiply_few, takes_few
from tilelang_ops.gemm.multiply import multiply_quantized, multiply_specs
from tilelang_ops.gemm.wide_rows import multiply_wide, takes_wide, wide_specs
from tilelang_ops.jit.arch import arch_of
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes
from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product


def quantized_linear(
    x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor, out_dtype: torch.dtype, *, batch_invariant: bool
) -> torch.Tensor:
    """``Q8/32(x) @ weight.T`` with float32 accumulation, rounded once.

    Args:
        x: bf16 [T, K] contiguous, K a multiple of 32.
        codes: float8_e4m3fn [N, K] contiguous.
        scales: uint8 E8M0 [ceil(N/32), K/32].
        out_dtype: bf16 or float32.
        batch_invariant: one form for all T; else few rows take forms whose sums have another order, and many the
            matrix library, for which both operands are recoded (`multiply_wide`).

    Returns:
        out_dtype [T, N].
    """
    if takes_few(x.shape[0], *codes.shape, 1, batch_invariant):
        return multiply_few(x, None, codes, scales, 1, out_dtype)
    may_recode = out_dtype is torch.bfloat16 and not batch_invariant
    if may_recode and takes_wide(x.shape[0], *codes.shape, 1, arch_of(x.device)):
        return multiply_wide(x, None, codes, scales, 1)
    return multiply_quantized(
        partial(quantize_for_product, x),
        x.shape[0],
        codes,
        scales,
        num_groups=1,
        out_dtype=out_dtype,
        batch_invariant=batch_invariant,
    )


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Query, window and output projections, index queries, Engram projection, the draft model's main projection, and
    the shared expert where it is by itself.
    """
    shapes = {
        (sizes.q_lora_rank, sizes.hidden_size),
        (sizes.num_heads * sizes.head_dim, sizes.q_lora_rank),
        (sizes.head_dim, sizes.hidden_size),
        (sizes.hidden_size, sizes.o_groups * sizes.o_lora_rank),
        (sizes.index_n_heads * sizes.index_head_dim, sizes.q_lora_rank),
        (sizes.moe_intermediate_size, sizes.hidden_size),
        (sizes.hidden_size, sizes.moe_intermediate_size),
    }
    memory = (sizes.engram_max_ngram_size - 1) * sizes.engram_n_heads * sizes.engram_head_dim
    if memory > 0:
        shapes.add(((sizes.num_streams + 1) * sizes.hidden_size, memory))
    if sizes.num_drafts:
        shapes.add((sizes.hidden_size, sizes.num_draft_features * sizes.hidden_size))
    return [
        spec
        for num_out, dim in sorted(shapes)
        for spec in (
            *few_specs("gemm.quantized_linear", num_out, dim, out_dtype="bfloat16"),
            *multiply_specs("gemm.quantized_linear", num_out, dim, quantized=True, out_dtype="bfloat16"),
            *wide_specs(num_out, dim),
        )
    ]
