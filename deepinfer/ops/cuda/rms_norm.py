"""`rms_norm` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.norm import rms_norm as kernels


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype) -> torch.Tensor:
    """See `Ops.rms_norm`; float32 tensors take the reference's form."""
    has_float32 = x.dtype is not torch.bfloat16 or (weight is not None and weight.dtype is not torch.bfloat16)
    if has_float32 or x.shape[-1] % 8:
        return reference.rms_norm(x, weight, eps, out_dtype)
    return kernels.rms_norm(x.reshape(-1, x.shape[-1]).contiguous(), weight, eps, out_dtype).view(x.shape)
