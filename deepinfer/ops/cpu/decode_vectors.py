"""Vectors from the bytes a cache stores."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.cache_spec import VectorFormat


def decode_vectors(context: cpu.Context, data: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """As `deepinfer.ops.reference.decode_vectors`, bit for bit: uint8 [..., format.num_bytes] -> float32 [..., dim]."""
    data = data.contiguous()
    if not format.packed:
        return data.view(torch.float32)
    assert data.dtype == torch.uint8 and data.shape[-1] == format.num_bytes, f"{data.dtype} {tuple(data.shape)}"
    out = torch.empty(*data.shape[:-1], format.dim)
    cpu.decode_vectors(
        context,
        data=data.data_ptr(),
        out=out.data_ptr(),
        num_rows=data.numel() // format.num_bytes,
        dim=format.dim,
        rounding=format.rounding.value,
    )
    return out
