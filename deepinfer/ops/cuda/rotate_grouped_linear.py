"""`rotate_grouped_linear` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from deepinfer.ops.cuda.has_product_kernel import has_product_kernel
from tilelang_ops.gemm.rotate_grouped_linear import rotate_grouped_linear as multiply


def rotate_grouped_linear(
    batch_invariant: bool,
    heads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    weight: QuantizedWeight,
    *,
    num_groups: int,
    quantize: bool,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """See `Ops.rotate_grouped_linear`.

    Float32 activations, FP4 weights and head sizes that 32 does not divide take the reference's form.
    """
    fits = heads.shape[-1] % 32 == 0 and cos.shape[-1] % 4 == 0
    if not (quantize and fits and has_product_kernel(heads, weight)):
        return reference.rotate_grouped_linear(
            heads, cos, sin, weight, num_groups=num_groups, quantize=quantize, out_dtype=out_dtype
        )
    return multiply(
        heads.contiguous(),
        cos.contiguous(),
        sin.contiguous(),
        weight.codes,
        weight.scales,
        num_groups,
        out_dtype,
        batch_invariant=batch_invariant,
    )
