"""Rotary position embedding on the last columns of a vector."""

from __future__ import annotations

import torch


def apply_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, inverse: bool = False) -> torch.Tensor:
    """Rotate the last r columns as interleaved pairs (x[2j], x[2j+1]) by the angle of pair j (spec/model.md 4.2).

    Args:
        x: bf16 or float32 [T, ..., d].
        cos: float32 [T, r/2].
        sin: float32 [T, r/2].
        inverse: rotate by the negative angle.

    Returns:
        A new tensor like `x`; float32 inside, rounded once; the first d - r columns are copied.
    """
    shape = (x.shape[0],) + (1,) * (x.dim() - 2) + (cos.shape[-1],)
    cos, sin = cos.view(shape), (-sin if inverse else sin).view(shape)
    out = x.clone(memory_format=torch.contiguous_format)
    tail = out[..., out.shape[-1] - 2 * cos.shape[-1] :]
    even, odd = tail[..., 0::2].to(torch.float32), tail[..., 1::2].to(torch.float32)
    rotated_even, rotated_odd = (even * cos).sub_(odd * sin), (even * sin).add_(odd * cos)
    tail[..., 0::2] = rotated_even
    tail[..., 1::2] = rotated_odd
    return out
