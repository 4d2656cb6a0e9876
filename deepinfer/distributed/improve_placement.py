"""One local-search pass over a placement of experts."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MAX_CANDIDATES: Final = 16  # experts that a place is tried with
_LEAST_GAIN: Final = 1e-9  # relative; smaller ones are rounding


def improve_placement(loads: Floats, placement: Ints) -> Ints:
    """Places by descending load: each makes the one change that lowers the sum over steps of the largest load of a
    rank the most, if any does. A change is an exchange with a place of another rank, or, where the expert has other
    places, giving this one to one of the experts that the peaks are made of.

    Args:
        loads: float64 [steps, num_logical], tokens of one layer.
        placement: int64 [num_ranks, slots], the expert in each place; every expert has one.

    Returns:
        int64 [num_ranks, slots], ascending in a rank. Never worse than `placement`.
    """
    search = _Search(loads, placement)
    order = np.argsort(-search.shares[search.places].sum(axis=1), kind="stable")
    for place in order:
        search.improve(int(place))
    return np.sort(search.places.reshape(placement.shape), axis=1)


class _Search:
    """A placement that changes.

    `places` int64 [num_physical] are the experts, `shares` float64 [num_logical, steps] the tokens of one replica.
    """

    def __init__(self, loads: Floats, placement: Ints) -> None:
        num_ranks, slots = placement.shape
        self.tokens = np.ascontiguousarray(loads.T)
        self.places = placement.reshape(-1).copy()
        self.ranks = np.repeat(np.arange(num_ranks), slots)
        self.counts = np.bincount(self.places, minlength=len(self.tokens))
        self._sum_up()

    def _sum_up(self) -> None:
        num_ranks = int(self.ranks[-1]) + 1
        self.shares = self.tokens / self.counts[:, None]
        self.held = np.zeros((num_ranks, len(self.tokens)), np.int64)  # places of each expert on each rank
        np.add.at(self.held, (self.ranks, self.places), 1)
        self.rank_loads = self.held @ self.shares
        self.cost = self.rank_loads.max(axis=0).sum()

    def improve(self, place: int) -> None:
        """The best change of one place, if there is one."""
        least = self.cost * (1 - _LEAST_GAIN)
        exchange, exchange_cost = self._best_exchange(place)
        expert, expert_cost = self._best_expert(place)
        if min(exchange_cost, expert_cost) >= least:
            return
        if exchange_cost <= expert_cost:
            self.places[[place, exchange]] = self.places[[exchange, place]]
        else:
            self.counts[self.places[place]] -= 1
            self.counts[expert] += 1
            self.places[place] = expert
        self._sum_up()

    def _best_exchange(self, place: int) -> tuple[int, float]:
        """The place to exchange with, and what the placement would cost then."""
        rank = self.ranks[place]
        others = np.flatnonzero(self.ranks != rank)
        if not len(others):
            return place, np.inf
        gained = self.shares[self.places[others]] - self.shares[self.places[place]]
        changed = np.maximum(self.rank_loads[rank] + gained, self.rank_loads[self.ranks[others]] - gained)
        costs = np.maximum(changed, self._peaks_without(rank)[self.ranks[others]]).sum(axis=1)
        best = int(costs.argmin())
        return int(others[best]), float(costs[best])

    def _peaks_without(self, rank: int) -> Floats:
        """Largest load in each step over all ranks but `rank` and the rank of the row: float64 [num_ranks, steps]."""
        rest = self.rank_loads.copy()
        rest[rank] = 0
        steps = np.arange(rest.shape[1])
        top = rest.argmax(axis=0)
        peaks = np.tile(rest[top, steps], (len(rest), 1))
        rest[top, steps] = 0
        peaks[top, steps] = rest.max(axis=0)
        return peaks

    def _best_expert(self, place: int) -> tuple[int, float]:
        """The expert to put into a place instead of its own, and what the placement would cost then."""
        old, rank = self.places[place], self.ranks[place]
        if self.counts[old] == 1:
            return old, np.inf
        base = self.rank_loads - np.outer(self.held[:, old], self.shares[old])
        kept = self.held[:, old] - (np.arange(len(base)) == rank)
        base += np.outer(kept, self.tokens[old] / (self.counts[old] - 1))
        candidates = self._hot_experts()
        candidates = candidates[candidates != old]
        after = self.tokens[candidates] / (self.counts[candidates, None] + 1)
        held = self.held[:, candidates].T[:, :, None]  # [candidates, num_ranks, 1]
        changed = base + held * (after - self.shares[candidates])[:, None, :]
        changed[:, rank] += after
        costs = changed.max(axis=1).sum(axis=1)
        best = int(costs.argmin()) if len(costs) else 0
        return (int(candidates[best]), float(costs[best])) if len(costs) else (old, np.inf)

    def _hot_experts(self) -> Ints:
        """The experts with the most tokens on the hottest rank of each step."""
        hottest = self.rank_loads.argmax(axis=0)
        weights = (self.held[hottest].T * self.shares).sum(axis=1)
        return np.argsort(-weights, kind="stable")[:_MAX_CANDIDATES]
