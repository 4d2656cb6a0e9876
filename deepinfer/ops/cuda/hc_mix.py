"""`hc_mix` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.hyper_connection import hc_mix as kernels
from tilelang_ops.hyper_connection.hc_advance import MAX_STREAMS


def hc_mix(
    streams: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `Ops.hc_mix`; float32 streams, and more than four of them, take the reference's form."""
    fits = streams.dtype is torch.bfloat16 and streams.shape[-1] % 8 == 0 and streams.shape[1] <= MAX_STREAMS
    run = kernels.hc_mix if fits else reference.hc_mix
    return run(streams.contiguous(), fn, base, scale, sinkhorn_iters=sinkhorn_iters, eps=eps, norm_eps=norm_eps)
