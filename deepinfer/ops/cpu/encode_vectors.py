"""Vectors as the bytes a cache stores."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.cache_spec import VectorFormat
from deepinfer.ops.cpu.floats import as_floats
from deepinfer.ops.cpu.round_vectors import round_vectors


def encode_vectors(context: cpu.Context, x: torch.Tensor, format: VectorFormat) -> torch.Tensor:
    """As `deepinfer.ops.reference.encode_vectors`, bit for bit: x [n, dim] -> uint8 [n, format.num_bytes]."""
    if not format.packed:
        return round_vectors(context, x, format.rounding).view(torch.uint8)
    x = as_floats(x)
    num_rows, dim = x.shape
    out = torch.empty(num_rows, format.num_bytes, dtype=torch.uint8)
    cpu.encode_vectors(
        context, x=x.data_ptr(), out=out.data_ptr(), num_rows=num_rows, dim=dim, rounding=format.rounding.value
    )
    return out
