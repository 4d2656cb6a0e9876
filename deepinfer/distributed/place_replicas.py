"""Second half of EPLB: which rank each replica goes to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def place_replicas(shares: npt.NDArray[np.float64], num_ranks: int) -> npt.NDArray[np.int64]:
    """Greedy: replicas by descending load, each to the rank with a free place where the sum over steps of the largest
    load of a rank grows least (spec/engine.md 5.6). Ties go to the less loaded rank, which is our own rule, then to the
    lower one.

    Args:
        shares: float64 [steps, num_physical], tokens that each replica of one layer gets.
        num_ranks: a divisor of num_physical.

    Returns:
        int64 [num_ranks, slots], replica numbers, ascending in a rank.
    """
    num_steps, num_physical = shares.shape
    slots = num_physical // num_ranks
    rank_loads = np.zeros((num_ranks, num_steps))
    peaks = np.zeros(num_steps)
    free = np.full(num_ranks, slots)
    owners = np.empty(num_physical, np.int64)
    for replica in np.argsort(-shares.sum(axis=0), kind="stable"):
        open_ranks = np.flatnonzero(free)
        candidates = rank_loads[open_ranks] + shares[:, replica]
        costs = np.maximum(peaks, candidates).sum(axis=1)
        totals = rank_loads[open_ranks].sum(axis=1)
        best = np.lexsort((open_ranks, totals, costs))[0]
        rank = open_ranks[best]
        owners[replica] = rank
        rank_loads[rank] += shares[:, replica]
        peaks = np.maximum(peaks, rank_loads[rank])
        free[rank] -= 1
    return np.argsort(owners, kind="stable").reshape(num_ranks, slots)
