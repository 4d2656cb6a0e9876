"""Root-mean-square normalisation."""

from __future__ import annotations

import math

import torch

from deepinfer._C import cpu
from deepinfer.ops.cpu.floats import as_floats, is_low_precision


def rms_norm(
    context: cpu.Context, x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype
) -> torch.Tensor:
    """See `deepinfer.ops.reference.rms_norm`."""
    x, factor = as_floats(x), None if weight is None else as_floats(weight)
    out = torch.empty_like(x)
    cpu.rms_norm(
        context,
        x=x.data_ptr(),
        weight=0 if factor is None else factor.data_ptr(),
        out=out.data_ptr(),
        num_rows=math.prod(x.shape[:-1]),
        dim=x.shape[-1],
        eps=eps,
        rounds_bf16=is_low_precision(out_dtype),
    )
    return out.to(out_dtype)
