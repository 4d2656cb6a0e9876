"""`rms_norm` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.norm.rms_norm import rms_norm as normalise


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype) -> torch.Tensor:
    """See `Ops.rms_norm`; float32 tensors take the reference's form."""
    if x.dtype is not torch.bfloat16 or out_dtype is not torch.bfloat16:
        return reference.rms_norm(x, weight, eps, out_dtype)
    return normalise(x.reshape(-1, x.shape[-1]), weight, eps).view(x.shape)
