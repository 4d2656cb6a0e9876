"""`hc_write` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.hyper_connection import hc_write as kernels


def hc_write(streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """See `Ops.hc_write`; float32 tensors take the reference's form."""
    if streams.dtype is not torch.bfloat16 or out.dtype is not torch.bfloat16 or streams.shape[-1] % 8:
        return reference.hc_write(streams, out, post, comb)
    return kernels.hc_write(streams.contiguous(), out.contiguous(), post.contiguous(), comb.contiguous())
