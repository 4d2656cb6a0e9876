"""Table rows of a token's hashed n-grams."""

from __future__ import annotations

import torch

from deepinfer.core.ngram_hash import NgramHash


def ngram_rows(ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
    """Multiply-xor hash of the 2- to n-grams that end at the token, one row per order and head (spec/model.md 9.2).

    Args:
        ngram: int64 [T, n] compressed ids, nearest first; the pad id where there is none. A negative first id means
            that the token takes no part (image input).
        constants: the layer's constants.

    Returns:
        int64 [T, (n-1)*h] row numbers, -1 for tokens that take no part.
    """
    mixed = ngram * constants.multipliers
    state, states = mixed[:, 0], []
    for distance in range(1, ngram.shape[1]):
        state = state ^ mixed[:, distance]
        states.append(state)
    rows = torch.stack(states, dim=1).unsqueeze(-1).remainder(constants.primes).add_(constants.offsets)
    return rows.flatten(1).masked_fill_(ngram[:, :1] < 0, -1)
