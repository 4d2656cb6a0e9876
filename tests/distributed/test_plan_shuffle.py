"""Shuffles: carried out they give the new placement, and they move no more than they must."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer.distributed.align_placement import align_placement
from deepinfer.distributed.balance_experts import balance_experts
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.layer_shuffle import LayerShuffle
from deepinfer.distributed.peak_to_mean import peak_to_mean
from deepinfer.distributed.plan_shuffle import plan_shuffle
from tests.distributed.eval_routing import eval_routing


@st.composite
def placement_pairs(draw: st.DrawFn) -> tuple[ExpertPlacement, ExpertPlacement]:
    num_logical, num_ranks, num_layers = draw(st.integers(1, 7)), draw(st.integers(1, 5)), draw(st.integers(1, 2))
    num_physical = ExpertPlacement.round_up(num_logical, draw(st.integers(0, 6)), num_ranks)
    extra = st.lists(
        st.integers(0, num_logical - 1), min_size=num_physical - num_logical, max_size=num_physical - num_logical
    )

    def placement() -> ExpertPlacement:
        rows = [draw(st.permutations([*range(num_logical), *draw(extra)])) for _ in range(num_layers)]
        return ExpertPlacement.of_physical(rows, num_logical, num_ranks)

    return placement(), placement()


def carried_out(places: list[int], shuffle: LayerShuffle) -> list[int]:
    """Contents of one layer's places after a shuffle: what is read is what lay there before, but for duplicates."""
    after = list(places)
    for move in (*shuffle.transfers, *shuffle.copies):
        after[move.target] = places[move.source]
    for move in shuffle.duplicates:
        after[move.target] = after[move.source]
    return after


@settings(max_examples=150, deadline=None)
@given(placement_pairs(), st.booleans())
def test_a_shuffle_gives_the_new_placement_with_the_fewest_transfers(pair, aligned):
    old, new = pair
    if aligned:
        new = align_placement(old, new)
    slots = old.slots_per_rank
    for before, after, shuffle in zip(
        old.physical_to_logical.tolist(), new.physical_to_logical.tolist(), plan_shuffle(old, new), strict=True
    ):
        assert carried_out(before, shuffle) == after
        moves = [*shuffle.transfers, *shuffle.copies, *shuffle.duplicates]
        assert sorted(move.target for move in moves) == [p for p in range(len(before)) if before[p] != after[p]]
        assert all(before[move.source] == move.expert for move in (*shuffle.transfers, *shuffle.copies))
        assert all(m.source // slots == m.target // slots for m in (*shuffle.copies, *shuffle.duplicates))
        held = {(place // slots, expert) for place, expert in enumerate(before)}
        wanted = {(place // slots, expert) for place, expert in enumerate(after)}
        received = [(move.target // slots, move.expert) for move in shuffle.transfers]
        assert sorted(received) == sorted(wanted - held)


@settings(max_examples=100, deadline=None)
@given(placement_pairs())
def test_aligning_changes_no_load_and_never_adds_transfers(pair):
    old, new = pair
    aligned = align_placement(old, new)
    num_layers = len(new.physical_to_logical)
    for layer in range(num_layers):
        groups = [
            sorted(sorted(group) for group in placement.physical_to_logical[layer].reshape(old.num_ranks, -1).tolist())
            for placement in (new, aligned)
        ]
        assert groups[0] == groups[1]
    lengths = [sum(len(layer.transfers) for layer in plan_shuffle(old, target)) for target in (new, aligned)]
    assert lengths[1] <= lengths[0]
    assert all(not layer.copies for layer in plan_shuffle(old, align_placement(old, old)))


@given(st.integers(1, 9), st.integers(1, 8))
def test_senders_of_one_expert_take_turns(num_receivers, num_holders):
    num_ranks = num_receivers + num_holders
    old = ExpertPlacement.of_physical([[0, 1] * num_holders + [1, 1] * num_receivers], 2, num_ranks)
    new = ExpertPlacement.of_physical([[0, 1] * num_ranks], 2, num_ranks)
    (shuffle,) = plan_shuffle(old, new)
    assert len(shuffle.transfers) == num_receivers
    sent = Counter(move.source // 2 for move in shuffle.transfers)
    assert max(sent.values()) - min(sent[rank] for rank in range(num_holders)) <= 1


def test_a_swap_inside_a_rank_reads_before_it_writes():
    old = ExpertPlacement.of_physical([[0, 1, 2, 3]], 4, 2)
    new = ExpertPlacement.of_physical([[1, 0, 3, 2]], 4, 2)
    (shuffle,) = plan_shuffle(old, new)
    assert not shuffle.transfers and carried_out([0, 1, 2, 3], shuffle) == [1, 0, 3, 2]
    assert align_placement(old, new).physical_to_logical.tolist() == [[0, 1, 2, 3]]


def test_an_expert_needed_twice_comes_once():
    old = ExpertPlacement.of_physical([[0, 1, 2, 0, 2, 1]], 3, 2)
    new = ExpertPlacement.of_physical([[0, 1, 2, 0, 0, 0]], 3, 2)
    (shuffle,) = plan_shuffle(old, new)
    assert not shuffle.transfers and len(shuffle.copies) == 2
    far = ExpertPlacement.of_physical([[0, 0, 0, 1, 2, 2]], 3, 2)
    near = ExpertPlacement.of_physical([[1, 1, 1, 0, 2, 2]], 3, 2)
    (shuffle,) = plan_shuffle(far, near)
    assert len(shuffle.transfers) == 2 and len(shuffle.duplicates) == 2


def test_aligning_saves_most_of_a_rebalance_of_recorded_routing():
    loads = eval_routing()
    first = balance_experts(loads[:90], 24, 8)
    second = balance_experts(loads[30:], 24, 8)
    aligned = align_placement(first, second)
    lengths = [sum(len(layer.transfers) for layer in plan_shuffle(first, target)) for target in (second, aligned)]
    print(f"transfers of {second.physical_to_logical.size} places: {lengths[0]}, aligned {lengths[1]}")
    assert lengths[1] < 0.8 * lengths[0]
    assert np.allclose(peak_to_mean(loads, second), peak_to_mean(loads, aligned))
