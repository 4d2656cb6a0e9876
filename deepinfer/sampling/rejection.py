"""Rejection sampling: judges drafts so that what comes out follows the target's distribution exactly."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from deepinfer.sampling.fixed_point import FRACTION_BITS, draw

_COIN_BITS: Final = 53  # what a float64 holds


def judge_drafts(
    target_weights: torch.Tensor,
    draft_weights: torch.Tensor,
    draft_ids: torch.Tensor,
    coins: np.ndarray,
    residual_words: np.ndarray,
) -> torch.Tensor:
    """One token per row: the draft if it is accepted, else a draw from the residual (spec/decode.md 3.2 and 3.3).

    With q the target's and p the draft's distribution and d the draft, drawn from p: d is accepted iff
    U < min(1, q(d) / p(d)); after a rejection the token comes from max(q - p, 0), renormalised. So its probability is
    min(p, q) + max(q - p, 0) = q (Leviathan et al. 2023, Chen et al. 2023). A residual token never equals its draft.

    The original subtracts exp(-5e-5) * p, so that the residual never vanishes; here p and q are quotients of exact
    integer sums in float64 and U lies in [0, 1), so nothing is subtracted but p and the result is exact to 2^-40. Where
    rounding makes a rejected row's residual vanish all the same (p and q equal but for the last bit), the token is the
    lowest id of the largest q.

    Args:
        target_weights: int64 [n, V], q unnormalised; each row has a positive sum.
        draft_weights: float32 [n, V] whole numbers, p unnormalised; each row has a positive sum.
        draft_ids: int64 [n]; draft_weights is positive there.
        coins: uint64 [n], the source of U.
        residual_words: uint64 [n], independent of the coins.

    Returns:
        int64 [n].
    """
    target = _probabilities(target_weights)
    draft = _probabilities(draft_weights.to(torch.int64))
    uniform = torch.from_numpy((coins >> np.uint64(64 - _COIN_BITS)).astype(np.float64) * 2.0**-_COIN_BITS)
    own = draft_ids[:, None]
    ratio = (target.gather(1, own) / draft.gather(1, own))[:, 0]
    accepted = uniform.to(ratio.device) < ratio
    residual = (target - draft).clamp(min=0.0)
    largest = residual.amax(dim=1, keepdim=True)
    vanished = largest[:, 0] <= 0.0
    residual[vanished] = 1.0  # any draw will do there, it is replaced
    weights = (residual / largest.masked_fill(vanished[:, None], 1.0) * 2.0**FRACTION_BITS).to(torch.int64)
    corrected = torch.where(vanished, target_weights.argmax(dim=1), draw(weights, residual_words))
    return torch.where(accepted, draft_ids, corrected)


def _probabilities(weights: torch.Tensor) -> torch.Tensor:
    """int64 [n, V] -> float64 [n, V]; integer sums have no order."""
    return weights.to(torch.float64) / weights.sum(dim=1, keepdim=True).to(torch.float64)
