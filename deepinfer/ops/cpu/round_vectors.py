"""The values that are left after a quantizer and its inverse, without the codes in between."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops.cpu.floats import as_floats


def round_vectors(context: cpu.Context, x: torch.Tensor, rounding: KVRounding) -> torch.Tensor:
    """As `deepinfer.ops.reference.round_vectors`, bit for bit: x [..., d] -> float32 [..., d]."""
    dim = x.shape[-1]
    x = as_floats(x)
    out = torch.empty_like(x)
    num_rows = x.numel() // max(dim, 1)
    cpu.round_vectors(context, x=x.data_ptr(), out=out.data_ptr(), num_rows=num_rows, dim=dim, rounding=rounding.value)
    return out
