"""The best placement of one layer's experts, the slow ways: all of them, or simulated annealing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np


def cost(loads: np.ndarray, experts: np.ndarray, num_ranks: int) -> float:
    """Sum over steps of the fullest rank's tokens; `loads` [steps, experts], `experts` [places], rank after rank."""
    counts = np.bincount(experts, minlength=loads.shape[1])
    shares = (loads / counts)[:, experts]
    return float(shares.reshape(len(loads), num_ranks, -1).sum(axis=2).max(axis=1).sum())


def least_cost(loads: np.ndarray, num_physical: int, num_ranks: int) -> float:
    """Over all numbers of replicas and all ways to share them out."""
    num_logical = loads.shape[1]
    best = np.inf
    for extra in itertools.combinations_with_replacement(range(num_logical), num_physical - num_logical):
        experts = sorted([*range(num_logical), *extra])
        counts = np.bincount(experts, minlength=num_logical)
        for groups in _groups(experts, num_ranks, num_physical // num_ranks):
            rank_loads = [(loads / counts)[:, list(group)].sum(axis=1) for group in groups]
            best = min(best, np.max(rank_loads, axis=0).sum())
    return float(best)


def _groups(experts: list[int], num_groups: int, size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to split a sorted list into unordered groups of a size."""
    if num_groups == 1:
        yield (tuple(experts),)
        return
    tried = set()
    for rest in itertools.combinations(range(1, len(experts)), size - 1):
        group = (experts[0], *(experts[i] for i in rest))
        if group not in tried:
            tried.add(group)
            left = [experts[i] for i in range(1, len(experts)) if i not in rest]
            yield from ((group, *others) for others in _groups(left, num_groups - 1, size))


def annealed_cost(loads: np.ndarray, start: np.ndarray, num_ranks: int, num_moves: int, seed: int) -> float:
    """The least cost that random exchanges and changes of a place's expert come by."""
    rng = np.random.default_rng(seed)
    experts, num_logical = start.copy(), loads.shape[1]
    now = best = cost(loads, experts, num_ranks)
    heat = 0.02 * now
    for _ in range(num_moves):
        moved = experts.copy()
        repeated = np.flatnonzero(np.bincount(experts, minlength=num_logical)[experts] > 1)
        if len(repeated) and rng.random() < 0.3:
            moved[rng.choice(repeated)] = rng.integers(num_logical)
        else:
            i, j = rng.integers(len(experts), size=2)
            moved[i], moved[j] = moved[j], moved[i]
        then = cost(loads, moved, num_ranks)
        if then < now or rng.random() < np.exp((now - then) / heat):
            experts, now = moved, then
        best, heat = min(best, now), heat * (1 - 6 / num_moves)
    return best
