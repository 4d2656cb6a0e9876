"""Adds the Engram value to the streams, gated by how well each stream matches its key."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, is_low_precision


def engram_gate(
    context: cpu.Context,
    streams: torch.Tensor,
    keys: torch.Tensor,
    value: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    *,
    eps: float,
) -> torch.Tensor:
    """See `deepinfer.ops.reference.engram_gate`."""
    num_rows, num_streams, dim = streams.shape
    streams_f32, keys, value = as_floats(streams), as_floats(keys), as_floats(value)
    q_weight, k_weight = as_floats(q_weight), as_floats(k_weight)
    out = torch.empty_like(streams_f32)
    cpu.engram_gate(
        context,
        streams=streams_f32.data_ptr(),
        keys=keys.data_ptr(),
        value=value.data_ptr(),
        q_weight=q_weight.data_ptr(),
        k_weight=k_weight.data_ptr(),
        out=out.data_ptr(),
        num_rows=num_rows,
        num_streams=num_streams,
        dim=dim,
        eps=eps,
        dot_scale=dim**-0.5,
        rounds_bf16=is_low_precision(streams.dtype),
    )
    return out.to(streams.dtype)
