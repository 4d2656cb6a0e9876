"""What of two calls of one op is compared: results without what the contract leaves open, and written cache entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.route_result import RouteResult
from deepinfer.core.selection import Selection

Pair = tuple[torch.Tensor, torch.Tensor]


def own_caches(args: Sequence[Any]) -> list[Any]:
    """Arguments with copies of their caches, which ops write in place."""
    return [VectorCache(arg.data.clone(), arg.format) if isinstance(arg, VectorCache) else arg for arg in args]


def result_pairs(op: str, call: tuple[Sequence[Any], Mapping[str, Any]], found: Any, want: Any) -> list[Pair]:
    """Tensors (found, wanted) of the results of an op.

    Args:
        op: name in the op contract.
        call: arguments and options.
        found, want: the two results.
    """
    args, options = call
    pairs = list(zip(_tensors(found), _tensors(want), strict=True))
    if op == "select_entries":  # blocks of rows that take everything are free
        pairs = pairs[:1] + [_rows(pair, args[3] > options["topk"]) for pair in pairs[1:]]
    if op == "route":  # a near tie falls either way, and the weights of that row with it
        agreed = (pairs[0][0] == pairs[0][1]).all(1)
        pairs = [pairs[0], _rows(pairs[1], agreed)]
    return pairs


def written_pairs(args: Sequence[Any], copies: Sequence[Any], before: Sequence[Any]) -> list[Pair]:
    """The vectors that either side has written into each cache: their bytes, or float32 values.

    Args:
        args, copies: arguments of the two calls, behind them.
        before: the same with the caches as they were.
    """
    pairs = []
    for arg, copy, old in zip(args, copies, before, strict=True):
        if isinstance(arg, VectorCache):
            written = (arg.data != old.data).any(-1) | (copy.data != old.data).any(-1)
            pair = arg.data[written], copy.data[written]
            pairs.append(pair if arg.format.packed else (pair[0].view(torch.float32), pair[1].view(torch.float32)))
    return pairs


def _rows(pair: Pair, rows: torch.Tensor) -> Pair:
    return pair[0][rows], pair[1][rows]


def _tensors(result: Any) -> list[torch.Tensor]:
    """All tensors of a result but margins: small differences of numbers that are judged themselves."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, RouteResult):
        return [result.ids, result.weights]
    if isinstance(result, Selection):
        return _tensors((result.picks, result.blocks))
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _tensors(part)]
    return []
