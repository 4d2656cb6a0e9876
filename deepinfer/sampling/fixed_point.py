"""Probabilities as integers: sums that do not depend on their order, and an exact draw."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from deepinfer.ops.reference.exact_math import exp

FRACTION_BITS: Final = 40  # a row of 2^22 tokens still sums below 2^63
_NEGLIGIBLE: Final = -64.0  # exp of it is far below one unit


def fixed_weights(shifted: torch.Tensor) -> torch.Tensor:
    """``floor(exp(x) * 2^40)``: the unnormalised probabilities of a row whose maximum is 0.

    Args:
        shifted: float32 [n, V], <= 0; -inf allowed.

    Returns:
        int64 [n, V] in [0, 2^40]; the best token always has 2^40.
    """
    return (exp(shifted.clamp(min=_NEGLIGIBLE)) * 2.0**FRACTION_BITS).to(torch.int64)


def draw(weights: torch.Tensor, words: np.ndarray) -> torch.Tensor:
    """Inverse CDF in id order: the first id whose running sum exceeds ``floor(word * total / 2^64)``.

    Exact in integers: each token's share of the 2^64 words differs from its weight's share by less than one word,
    and a token of weight 0 is never drawn.

    Args:
        weights: int64 [n, V], each row with a positive sum.
        words: uint64 [n].

    Returns:
        int64 [n].
    """
    running = weights.cumsum(dim=-1)
    totals = running[:, -1].tolist()
    targets = [(word * total) >> 64 for word, total in zip(words.tolist(), totals, strict=True)]
    return torch.searchsorted(running, torch.tensor(targets, device=weights.device)[:, None], right=True)[:, 0]
