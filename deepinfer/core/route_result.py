"""Which experts the router chose for each row, and how clear the choice was."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class RouteResult:
    """Filled by the `route` op; read by the MoE layer and the research hooks.

    Attributes:
        ids: int64 [T, k] chosen experts, best (highest biased score) first.
        weights: float32 [T, k] their weights in the output sum.
        margin: float32 [T] gap of biased scores between the last chosen and the first rejected; inf when none is.
    """

    ids: torch.Tensor
    weights: torch.Tensor
    margin: torch.Tensor
