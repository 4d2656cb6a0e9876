"""The shared expert by itself, for ranks whose routed experts get other rows."""

from functools import partial

import torch

from tilelang_ops.gemm.quantized_linear import quantized_linear
from tilelang_ops.moe.expert_weights import Packed
from tilelang_ops.moe.gate_rows import gate_rows


def shared_expert(x: torch.Tensor, weights: tuple[Packed, ...], limit: float) -> torch.Tensor:
    """Three dense products: each fills the GPU, which one expert's tiles in the experts' kernels do not.

    Roundings are those of the experts' kernels, sums have another order.

    Args:
        x: bf16 [T, D] contiguous.
        weights: FP8 codes and scales of w1, w3 and w2, see `ExpertWeights`.
        limit: swiglu_limit.

    Returns:
        bf16 [T, D].
    """
    product = partial(quantized_linear, out_dtype=torch.bfloat16, batch_invariant=False)
    gate, up = (product(x, *weight) for weight in weights[:2])
    return product(gate_rows(gate, up, limit), *weights[2])
