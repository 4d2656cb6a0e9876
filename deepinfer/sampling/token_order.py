"""The one ranking of tokens: higher logit first, lower id on ties."""

from __future__ import annotations

import torch

_LOW_BITS = 2**31 - 1


def order_keys(logits: torch.Tensor) -> torch.Tensor:
    """Unique integers whose descending order is (logit descending, id ascending); +0 and -0 tie.

    Args:
        logits: float32 [n, V] without NaN.

    Returns:
        int64 [n, V]. Being unique, any selection algorithm gives the same result on every backend.
    """
    bits = (logits + 0.0).view(torch.int32)
    ascending = bits ^ ((bits >> 31) & _LOW_BITS)
    low = _LOW_BITS - torch.arange(logits.shape[-1], device=logits.device)
    return ascending.to(torch.int64) * 2**32 + low


def ids_of_keys(keys: torch.Tensor) -> torch.Tensor:
    """Token ids, int64, of what `order_keys` made."""
    return _LOW_BITS - (keys & (2**32 - 1))


def best_keys(keys: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` largest keys of each row, descending: int64 [n, count]."""
    if count == keys.shape[-1]:
        return keys.sort(dim=-1, descending=True).values
    return keys.topk(count, dim=-1).values


def ranks_of(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """1-based rank of one token per row: logits float32 [n, V], ids int64 [n] -> int64 [n]."""
    own = logits.gather(1, ids[:, None])
    earlier = torch.arange(logits.shape[-1], device=logits.device)[None, :] < ids[:, None]
    return 1 + (logits > own).sum(dim=1) + ((logits == own) & earlier).sum(dim=1)
