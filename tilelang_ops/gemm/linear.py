"""Product with an unquantized weight matrix."""

import torch

from tilelang_ops.gemm.multiply import multiply, multiply_specs
from tilelang_ops.jit.kernel_spec import KernelSpec
from tilelang_ops.jit.model_sizes import ModelSizes


def linear(x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype, *, batch_invariant: bool) -> torch.Tensor:
    """``x @ weight.T`` in float32, rounded once.

    Args:
        x: bf16 [T, K] contiguous, K a multiple of 32.
        weight: bf16 [N, K] contiguous.
        out_dtype: bf16 or float32.
        batch_invariant: one form for all T; else few rows take the row form, and many the matrix library, which
            add in other orders.

    Returns:
        out_dtype [T, N].
    """
    return multiply(x, weight, 1, out_dtype, batch_invariant)


def kernel_specs(sizes: ModelSizes) -> list[KernelSpec]:
    """Head, compressor, index keys and weights, and the draft model's Markov and confidence heads."""
    shapes = {
        (sizes.vocab_size, sizes.hidden_size, "float32"),
        (sizes.head_dim, sizes.hidden_size, "bfloat16"),
        (sizes.head_dim, sizes.hidden_size, "float32"),
        (sizes.index_head_dim, sizes.head_dim, "bfloat16"),
        (sizes.index_n_heads, sizes.hidden_size, "bfloat16"),
    }
    if sizes.num_drafts:
        shapes.add((sizes.vocab_size, sizes.markov_rank, "float32"))
        shapes.add((1, sizes.hidden_size + sizes.markov_rank, "float32"))
    return [
        spec
        for num_out, dim, out_dtype in sorted(shapes)
        for spec in multiply_specs("gemm.linear", num_out, dim, quantized=False, out_dtype=out_dtype)
    ]
