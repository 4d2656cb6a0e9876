"""The MoE router."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.route_result import RouteResult
from deepinfer.ops.cpu.floats import as_floats
from deepinfer.ops.cpu.linear import linear


def route(
    context: cpu.Context,
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    bias: torch.Tensor,
    *,
    top_k: int,
    scaling: float,
    normalize: bool,
) -> RouteResult:
    """See `deepinfer.ops.reference.route`; bit-equal to it for equal products with `gate_weight`."""
    logits, bias = linear(context, x, gate_weight, torch.float32), as_floats(bias)
    num_rows, num_experts = logits.shape
    ids = torch.empty(num_rows, top_k, dtype=torch.int64)
    weights, margin = logits.new_empty(num_rows, top_k), logits.new_empty(num_rows)
    cpu.route(
        context,
        logits=logits.data_ptr(),
        bias=bias.data_ptr(),
        ids=ids.data_ptr(),
        weights=weights.data_ptr(),
        margin=margin.data_ptr(),
        num_rows=num_rows,
        num_experts=num_experts,
        top_k=top_k,
        scaling=scaling,
        normalizes=normalize,
    )
    return RouteResult(ids, weights, margin)
