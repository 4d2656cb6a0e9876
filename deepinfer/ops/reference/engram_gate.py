"""Adds the Engram value to the streams, gated by how well each stream matches its key."""

from __future__ import annotations

import torch

from deepinfer.ops.reference.exact_math import sigmoid, sqrt
from deepinfer.ops.reference.row_dot import row_dot


def engram_gate(
    streams: torch.Tensor,
    keys: torch.Tensor,
    value: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    *,
    eps: float,
) -> torch.Tensor:
    """``streams + sigmoid(sign(dot) * sqrt(max(|dot|, 1e-6))) * value`` (spec/model.md 9.4).

    dot is the product of the RMS-normed, weighted stream and key, times D^(-1/2); float32 inside, rounded once.

    Args:
        streams: bf16 or float32 [T, S, D].
        keys: bf16 or float32 [T, S, D].
        value: bf16 or float32 [T, D].
        q_weight: bf16 or float32 [S, D].
        k_weight: bf16 or float32 [S, D].
        eps: rms_norm_eps.

    Returns:
        [T, S, D], dtype of `streams`.
    """
    dim = streams.shape[-1]
    r, k = streams.to(torch.float32), keys.to(torch.float32)
    norm_r = row_dot(r, r).div_(dim).add_(eps).rsqrt_()
    norm_k = row_dot(k, k).div_(dim).add_(eps).rsqrt_()
    weight = q_weight.to(torch.float32) * k_weight.to(torch.float32)
    dot = row_dot(r * weight, k).mul_(norm_r).mul_(norm_k).mul_(dim**-0.5)
    gate = sigmoid(sqrt(dot.abs().clamp_min_(1e-6)).copysign_(dot))
    return (r + gate.unsqueeze(-1) * value.unsqueeze(1)).to(streams.dtype)
