"""`engram_gate` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.ops import reference
from tilelang_ops.engram import engram_gate as kernels


def engram_gate(
    streams: torch.Tensor,
    keys: torch.Tensor,
    value: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    *,
    eps: float,
) -> torch.Tensor:
    """See `Ops.engram_gate`; float32 tensors take the reference's form."""
    tensors = (streams, keys, value, q_weight, k_weight)
    dim = streams.shape[-1]
    if dim % 8 or any(tensor.dtype is not torch.bfloat16 for tensor in tensors):
        return reference.engram_gate(*tensors, eps=eps)
    if keys.stride()[1:] != (dim, 1) or keys.stride(0) % 8:
        keys = keys.contiguous()
    if value.stride(1) != 1 or value.stride(0) % 8:
        value = value.contiguous()
    return kernels.engram_gate(streams.contiguous(), keys, value, q_weight, k_weight, eps=eps)
