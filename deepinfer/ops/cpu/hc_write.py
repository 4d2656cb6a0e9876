"""Hyper-connections: the streams after a sublayer."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, is_low_precision


def hc_write(
    context: cpu.Context, streams: torch.Tensor, out: torch.Tensor, post: torch.Tensor, comb: torch.Tensor
) -> torch.Tensor:
    """See `deepinfer.ops.reference.hc_write`."""
    num_rows, num_streams, dim = streams.shape
    old, out, post, comb = as_floats(streams), as_floats(out), as_floats(post), as_floats(comb)
    new = torch.empty_like(old)
    cpu.hc_write(
        context,
        streams=old.data_ptr(),
        out=out.data_ptr(),
        post=post.data_ptr(),
        comb=comb.data_ptr(),
        new_streams=new.data_ptr(),
        num_rows=num_rows,
        num_streams=num_streams,
        dim=dim,
        rounds_bf16=is_low_precision(streams.dtype),
    )
    return new.to(streams.dtype)
