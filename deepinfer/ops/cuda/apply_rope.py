"""`apply_rope` on a GPU."""

from __future__ import annotations

import math

import torch

from deepinfer.ops import reference
from tilelang_ops.rope import apply_rope as kernels


def apply_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False) -> torch.Tensor:
    """See `Ops.apply_rope`; float32 tensors take the reference's form."""
    if x.dtype is not torch.bfloat16 or x.shape[-1] % 8:
        return reference.apply_rope(x, cos, sin, inverse=inverse)
    heads = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1]).contiguous()
    return kernels.apply_rope(heads, cos.contiguous(), sin.contiguous(), inverse=inverse).view(x.shape)
