"""`grouped_linear` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from deepinfer.ops.cuda.has_product_kernel import has_product_kernel
from tilelang_ops.gemm.grouped_linear import grouped_linear as multiply


def grouped_linear(
    batch_invariant: bool, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
) -> torch.Tensor:
    """See `Ops.grouped_linear`; float32 activations and FP4 weights take the reference's form."""
    if not (quantize and has_product_kernel(x, weight)):
        return reference.grouped_linear(x, weight, quantize=quantize, out_dtype=out_dtype)
    return multiply(x.contiguous(), weight.codes, weight.scales, out_dtype, batch_invariant=batch_invariant)
