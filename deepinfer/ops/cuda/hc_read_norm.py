"""`hc_read_norm` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.hyper_connection import hc_read_norm as kernels


def hc_read_norm(
    streams: torch.Tensor, pre: torch.Tensor, weight: torch.Tensor, eps: float, out_dtype: torch.dtype
) -> torch.Tensor:
    """See `Ops.hc_read_norm`; float32 tensors take the reference's form."""
    dtypes = (streams.dtype, weight.dtype, out_dtype)
    if any(dtype is not torch.bfloat16 for dtype in dtypes) or streams.shape[-1] % 8:
        return reference.hc_read_norm(streams, pre, weight, eps, out_dtype)
    return kernels.hc_read_norm(streams.contiguous(), pre.contiguous(), weight, eps)
