"""`quantized_linear` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from deepinfer.ops.cuda.has_product_kernel import has_product_kernel
from tilelang_ops.gemm.quantized_linear import quantized_linear as multiply


def quantized_linear(
    batch_invariant: bool, x: torch.Tensor, weight: QuantizedWeight, *, quantize: bool, out_dtype: torch.dtype
) -> torch.Tensor:
    """See `Ops.quantized_linear`; float32 activations and FP4 weights take the reference's form."""
    if not (quantize and has_product_kernel(x, weight)):
        return reference.quantized_linear(x, weight, quantize=quantize, out_dtype=out_dtype)
    return multiply(x.contiguous(), weight.codes, weight.scales, out_dtype, batch_invariant=batch_invariant)
