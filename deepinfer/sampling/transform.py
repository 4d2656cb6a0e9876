"""Temperature, min_p, top-p and top-k: from adjusted logits to the distribution that is drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from deepinfer.ops.reference.exact_math import log
from deepinfer.sampling.fixed_point import FRACTION_BITS, fixed_weights
from deepinfer.sampling.token_order import best_keys, ids_of_keys, order_keys
from deepinfer.sampling_params import SamplingParams

MAX_TEMPERATURE: Final = 1e30  # uniform long before; keeps the quotient finite
_LOOKS: Final = (64, 512)  # tokens ranked at first: most nuclei are smaller; rows that are not are ranked whole


@dataclass(frozen=True, slots=True)
class Distribution:
    """The transformed rows.

    Attributes:
        weights: int64 [n, V], unnormalised probabilities in units of 2^-40 of the best token; 0 outside.
        shifted: float32 [n, V], (logit - max) / temperature.
        kept: bool [n, V], tokens inside the distribution.
    """

    weights: torch.Tensor
    shifted: torch.Tensor
    kept: torch.Tensor

    def log_probs(self) -> torch.Tensor:
        """Natural log-probabilities, float32 [n, V]; -inf outside."""
        totals = self.weights.sum(dim=-1, keepdim=True).to(torch.float32) * 2.0**-FRACTION_BITS
        return (self.shifted - log(totals)).masked_fill(~self.kept, -torch.inf)


def transform(logits: torch.Tensor, params: Sequence[SamplingParams]) -> Distribution:
    """Apply each row's temperature, then min_p, then top-p and top-k together (spec/decode.md 4.2).

    The maximum is subtracted before the division, so no temperature overflows. min_p compares with the best token's
    probability. Top-p and top-k are both prefixes of one ranking (logit descending, id ascending) of what min_p left:
    the shorter prefix stays; top-p keeps a token iff the mass strictly before it is <= top_p.

    Args:
        logits: float32 [n, V], -inf for banned tokens, each row with a finite maximum.
        params: [n]; a greedy temperature counts as 1 without filters.
    """
    temperature = _column([1.0 if p.greedy else min(p.temperature, MAX_TEMPERATURE) for p in params], logits)
    shifted = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    weights = fixed_weights(shifted)
    kept = shifted > -torch.inf
    if any(p.min_p > 0.0 and not p.greedy for p in params):
        floors = [0 if p.greedy else int(p.min_p * 2**FRACTION_BITS) for p in params]
        kept &= weights >= torch.tensor(floors, device=logits.device)[:, None]
        weights = weights.masked_fill(~kept, 0)
    rows = [row for row, p in enumerate(params) if not p.greedy and (p.top_p < 1.0 or 0 < p.top_k < logits.shape[1])]
    if rows:
        index = torch.tensor(rows, device=logits.device)
        inside = _inside(logits[index], weights[index], [params[row] for row in rows])
        kept[index] &= inside
        weights = weights.masked_fill(~kept, 0)
    return Distribution(weights, shifted, kept)


def _column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]


def _inside(logits: torch.Tensor, weights: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    """bool [n, V]: tokens of the shorter of the top-p and the top-k prefix."""
    vocab = logits.shape[1]
    keys = order_keys(logits)
    top_p = torch.tensor([p.top_p for p in params], dtype=torch.float64, device=logits.device)
    totals = weights.sum(dim=-1)
    limits = torch.where(top_p < 1.0, (top_p * totals.to(torch.float64)).to(torch.int64), totals)
    top_k = torch.tensor([p.top_k if p.top_k > 0 else vocab for p in params], device=logits.device).clamp(max=vocab)
    cut, rows = torch.empty_like(totals), torch.arange(len(params), device=logits.device)
    for width in (*(look for look in _LOOKS if look < vocab), vocab):
        cut[rows], decided = _last_kept(keys[rows], weights[rows], limits[rows], top_k[rows], width)
        rows = rows[~decided]
        if not len(rows):
            break
    return keys >= cut[:, None]


def _last_kept(
    keys: torch.Tensor, weights: torch.Tensor, limits: torch.Tensor, top_k: torch.Tensor, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Key of the last token of the prefix, int64 [n], and whether looking at `width` tokens decided it, bool [n]."""
    best = best_keys(keys, width)
    masses = weights.gather(1, ids_of_keys(best))
    before = masses.cumsum(dim=1) - masses
    count = torch.minimum((before <= limits[:, None]).sum(dim=1), top_k)
    decided = (count < width) | (top_k <= width) if width < keys.shape[1] else torch.ones_like(count, dtype=torch.bool)
    last = count.clamp(max=width) - 1
    return best.gather(1, last[:, None])[:, 0], decided
