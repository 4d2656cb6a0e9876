"""Root-mean-square normalisation."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.row_dot import row_dot


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float, out_dtype: torch.dtype) -> torch.Tensor:
    """``x * rsqrt(mean(x^2) + eps) * weight`` in float32, rounded once (spec/model.md 3).

    Args:
        x: bf16 or float32 [..., D].
        weight: bf16 or float32 [D], or None for ones.
        eps: added to the mean square.
        out_dtype: bf16 or float32.

    Returns:
        out_dtype [..., D].
    """
    x = x.to(torch.float32)
    factor = row_dot(x, x).div_(x.shape[-1]).add_(eps).rsqrt_().unsqueeze(-1)
    y = x * factor
    if weight is not None:
        y.mul_(weight)
    return y.to(out_dtype)
