"""The MoE router."""

from __future__ import annotations

import torch

from deepinfer.core.route_result import RouteResult
from deepinfer.ops.reference.exact_math import softplus, sqrt
from deepinfer.ops.reference.linear import linear
from deepinfer.ops.reference.tree_sum import tree_sum


def route(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    bias: torch.Tensor,
    *,
    top_k: int,
    scaling: float,
    normalize: bool,
) -> RouteResult:
    """Choose experts by ``sqrt(softplus(gate @ x)) + bias``; weigh them without the bias (spec/model.md 8).

    Args:
        x: bf16 or float32 [T, D].
        gate_weight: bf16 or float32 [E, D].
        bias: float32 [E], selection only.
        top_k: experts per row.
        scaling: factor of the weights.
        normalize: whether the weights are divided by their sum (+ 1e-20) first.

    Returns:
        ids best first (ties: lower id first), weights, margin.
    """
    score = sqrt(softplus(linear(x, gate_weight, torch.float32)))
    ordered, order = torch.sort(score + bias, dim=1, descending=True, stable=True)
    ids = order[:, :top_k]
    weights = score.gather(1, ids)
    if normalize:
        weights = weights / (tree_sum(weights) + 1e-20).unsqueeze(1)  # not in place: of one term it is that term
    if score.shape[1] > top_k:
        margin = ordered[:, top_k - 1] - ordered[:, top_k]
    else:
        margin = ordered.new_full((x.shape[0],), torch.inf)
    return RouteResult(ids, weights * scaling, margin)
