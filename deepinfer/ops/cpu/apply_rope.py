"""Rotary position embedding on the last columns of a vector."""

from __future__ import annotations

import math

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, is_low_precision


def apply_rope(
    context: cpu.Context, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False
) -> torch.Tensor:
    """See `deepinfer.ops.reference.apply_rope`; bit-equal to it."""
    values, cos, sin = as_floats(x), as_floats(cos), as_floats(sin)
    out = torch.empty_like(values)
    cpu.apply_rope(
        context,
        x=values.data_ptr(),
        cos=cos.data_ptr(),
        sin=sin.data_ptr(),
        out=out.data_ptr(),
        num_rows=x.shape[0],
        num_heads=math.prod(x.shape[1:-1]),
        dim=x.shape[-1],
        rotated=2 * cos.shape[-1],
        inverse=inverse,
        rounds_bf16=is_low_precision(x.dtype),
    )
    return out.to(x.dtype)
