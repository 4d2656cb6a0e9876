"""Hyper-connections: the read, write and mixing weights of one sublayer."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats


def hc_mix(
    context: cpu.Context,
    streams: torch.Tensor,
    fn: torch.Tensor,
    base: torch.Tensor,
    scale: torch.Tensor,
    *,
    sinkhorn_iters: int,
    eps: float,
    norm_eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `deepinfer.ops.reference.hc_mix`."""
    num_rows, num_streams, dim = streams.shape
    streams, fn, base, scale = as_floats(streams), as_floats(fn), as_floats(base), as_floats(scale)
    pre, post = streams.new_empty(num_rows, num_streams), streams.new_empty(num_rows, num_streams)
    comb = streams.new_empty(num_rows, num_streams, num_streams)
    cpu.hc_mix(
        context,
        streams=streams.data_ptr(),
        fn=fn.data_ptr(),
        base=base.data_ptr(),
        scale=scale.data_ptr(),
        pre=pre.data_ptr(),
        post=post.data_ptr(),
        comb=comb.data_ptr(),
        num_rows=num_rows,
        num_streams=num_streams,
        dim=dim,
        sinkhorn_iters=sinkhorn_iters,
        eps=eps,
        norm_eps=norm_eps,
    )
    return pre, post, comb
