"""EPLB: a new placement, renumbered so that as much as possible stays where it is."""

from __future__ import annotations

import numpy as np

from deepinfer.distributed.expert_placement import ExpertPlacement, IntArray


def align_placement(old: ExpertPlacement, new: ExpertPlacement) -> ExpertPlacement:
    """`new` with its ranks exchanged in each layer, and the places of each rank, after `old`.

    Ranks are equal, so which of them holds a set of experts changes no load; here it is one that holds much of the set
    already. An expert that stays on its rank keeps its place. The plan of a shuffle becomes no longer by it.

    Args:
        old, new: of the same layers, experts, places and ranks.
    """
    shape = (-1, old.num_ranks, old.slots_per_rank)
    layers = []
    for before, after in zip(
        old.physical_to_logical.reshape(shape), new.physical_to_logical.reshape(shape), strict=True
    ):
        groups = after[_match(before, after, old.num_logical)]
        layers.append(np.concatenate([_keep_places(*pair) for pair in zip(before, groups, strict=True)]))
    return ExpertPlacement.of_physical(np.stack(layers), old.num_logical, old.num_ranks)


def _match(before: IntArray, after: IntArray, num_logical: int) -> IntArray:
    """For each rank the row of `after` it takes: greedy by common experts, or all as they are if that keeps more."""
    num_ranks = len(before)
    rows = np.arange(num_ranks)[:, None]
    held, wanted = np.zeros((2, num_ranks, num_logical), np.int64)
    held[rows, before] = 1
    wanted[rows, after] = 1
    common = held @ wanted.T  # [rank, row of after]
    chosen = np.full(num_ranks, -1)
    taken = np.zeros(num_ranks, bool)
    for pair in np.argsort(-common, axis=None, kind="stable").tolist():
        rank, row = divmod(pair, num_ranks)
        if chosen[rank] < 0 and not taken[row]:
            chosen[rank], taken[row] = row, True
    kept = common[np.arange(num_ranks), chosen].sum()
    return chosen if kept > np.trace(common) else np.arange(num_ranks)


def _keep_places(before: IntArray, after: IntArray) -> IntArray:
    """The experts of `after`, those that `before` has in its places."""
    left = after.tolist()
    result = np.full(len(before), -1)
    for place, expert in enumerate(before.tolist()):
        if expert in left:
            left.remove(expert)
            result[place] = expert
    result[result < 0] = left
    return result
