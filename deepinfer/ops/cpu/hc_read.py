"""Hyper-connections: the vector a sublayer reads from the streams."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, is_low_precision


def hc_read(context: cpu.Context, streams: torch.Tensor, pre: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """See `deepinfer.ops.reference.hc_read`; bit-equal to it."""
    num_rows, num_streams, dim = streams.shape
    streams, pre = as_floats(streams), as_floats(pre)
    out = streams.new_empty(num_rows, dim)
    cpu.hc_read(
        context,
        streams=streams.data_ptr(),
        pre=pre.data_ptr(),
        norm_weight=0,
        out=out.data_ptr(),
        num_rows=num_rows,
        num_streams=num_streams,
        dim=dim,
        eps=0.0,
        norms=False,
        rounds_bf16=is_low_precision(out_dtype),
    )
    return out.to(out_dtype)
