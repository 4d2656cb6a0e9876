"""EPLB: which weights move from where to where for a new placement."""

from __future__ import annotations

import numpy as np

from deepinfer.distributed.expert_move import ExpertMove
from deepinfer.distributed.expert_placement import ExpertPlacement, IntArray
from deepinfer.distributed.layer_shuffle import LayerShuffle


def plan_shuffle(old: ExpertPlacement, new: ExpertPlacement) -> tuple[LayerShuffle, ...]:
    """One `LayerShuffle` a layer. What a rank holds already it copies; what it lacks comes from the holder that sends
    the least so far in this layer (ties: the next one behind the receiver), once for all its places.

    Depends on the arguments alone, so that sender and receiver agree without a word. A layer's transfers are ordered
    by the distance of the ranks: each distance pairs every rank with another one.

    Args:
        old, new: of the same layers, experts, places and ranks.
    """
    assert old.physical_to_logical.shape == new.physical_to_logical.shape and old.num_ranks == new.num_ranks
    return tuple(
        _plan_layer(before, after, old.num_ranks)
        for before, after in zip(old.physical_to_logical, new.physical_to_logical, strict=True)
    )


def _plan_layer(before: IntArray, after: IntArray, num_ranks: int) -> LayerShuffle:
    slots = len(before) // num_ranks
    holders: dict[int, dict[int, int]] = {}  # expert -> rank -> its first place there
    for place, expert in enumerate(before.tolist()):
        holders.setdefault(expert, {}).setdefault(place // slots, place)
    copies, duplicates = [], []
    missing: dict[tuple[int, int], int] = {}  # (expert, rank) -> the place that will receive it
    for place in np.flatnonzero(before != after).tolist():
        expert, rank = int(after[place]), place // slots
        if rank in holders[expert]:
            copies.append(ExpertMove(expert, holders[expert][rank], place))
        elif (expert, rank) in missing:
            duplicates.append(ExpertMove(expert, missing[expert, rank], place))
        else:
            missing[expert, rank] = place
    transfers = _choose_senders(missing, holders, num_ranks)
    transfers.sort(key=lambda move: ((move.target // slots - move.source // slots) % num_ranks, move))
    return LayerShuffle(tuple(transfers), tuple(copies), tuple(duplicates))


def _choose_senders(
    missing: dict[tuple[int, int], int], holders: dict[int, dict[int, int]], num_ranks: int
) -> list[ExpertMove]:
    """A sender for each expert that a rank lacks; those with the fewest holders choose first."""
    num_sent = [0] * num_ranks
    transfers = []
    for expert, rank in sorted(missing, key=lambda key: (len(holders[key[0]]), key)):
        sender = min(holders[expert], key=lambda holder: (num_sent[holder], (holder - rank) % num_ranks))
        num_sent[sender] += 1
        transfers.append(ExpertMove(expert, holders[expert][sender], missing[expert, rank]))
    return transfers
