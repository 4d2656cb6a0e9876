"""`hc_step` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.hyper_connection import hc_step as kernels
from tilelang_ops.hyper_connection.hc_advance import MAX_STREAMS


def hc_step(
    streams: torch.Tensor,
    pre: torch.Tensor,
    update: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    weight: torch.Tensor,
    mixing: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
    out_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `Ops.hc_step`; float32 tensors, and more than four streams, take the reference's form."""
    dtypes = [streams.dtype, weight.dtype, out_dtype] + ([] if update is None else [update[0].dtype])
    fits = streams.shape[-1] % 8 == 0 and streams.shape[1] <= MAX_STREAMS
    if any(dtype is not torch.bfloat16 for dtype in dtypes) or not fits:
        return reference.hc_step(
            streams,
            pre,
            update,
            weight,
            mixing,
            sinkhorn_iters=sinkhorn_iters,
            eps=eps,
            norm_eps=norm_eps,
            out_dtype=out_dtype,
        )
    if update is not None:
        out, post, comb = update
        update = (out.contiguous(), post.contiguous(), comb.contiguous())
    return kernels.hc_step(
        streams.contiguous(),
        pre.contiguous(),
        update,
        weight,
        mixing,
        sinkhorn_iters=sinkhorn_iters,
        eps=eps,
        norm_eps=norm_eps,
    )
