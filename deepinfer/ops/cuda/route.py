"""The MoE router on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.route_result import RouteResult
from deepinfer.ops import reference
from tilelang_ops.moe.route import route as choose


def route(
    batch_invariant: bool,
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    bias: torch.Tensor,
    *,
    top_k: int,
    scaling: float,
    normalize: bool,
) -> RouteResult:
    """See `Ops.route`; float32 rows or gates, and widths that 32 does not divide, take the reference's form."""
    if x.dtype is not torch.bfloat16 or gate_weight.dtype is not torch.bfloat16 or x.shape[1] % 32:
        return reference.route(x, gate_weight, bias, top_k=top_k, scaling=scaling, normalize=normalize)
    chosen = choose(
        x.contiguous(),
        gate_weight,
        bias,
        top_k=top_k,
        scaling=scaling,
        normalize=normalize,
        batch_invariant=batch_invariant,
    )
    return RouteResult(*chosen)
