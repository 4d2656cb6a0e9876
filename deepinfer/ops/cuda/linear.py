"""`linear` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.gemm.linear import linear as multiply


def linear(batch_invariant: bool, x: torch.Tensor, weight: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """See `Ops.linear`; float32 operands and widths that 32 does not divide take the reference's form."""
    if x.dtype is not torch.bfloat16 or weight.dtype is not torch.bfloat16 or x.shape[-1] % 32:
        return reference.linear(x, weight, out_dtype)
    return multiply(x.contiguous(), weight, out_dtype, batch_invariant=batch_invariant)
