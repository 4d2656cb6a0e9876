"""The three maps of a placement agree, and windows keep the newest steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.load_window import LoadWindow


@st.composite
def placements(draw: st.DrawFn) -> ExpertPlacement:
    num_logical, num_ranks = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    num_physical = ExpertPlacement.round_up(num_logical, draw(st.integers(0, 5)), num_ranks)
    extra = st.lists(
        st.integers(0, num_logical - 1), min_size=num_physical - num_logical, max_size=num_physical - num_logical
    )
    rows = [draw(st.permutations([*range(num_logical), *draw(extra)])) for _ in range(draw(st.integers(1, 3)))]
    return ExpertPlacement.of_physical(rows, num_logical, num_ranks)


@given(placements())
def test_maps_are_each_others_inverse(placement):
    for layer, row in enumerate(placement.physical_to_logical):
        for expert in range(placement.num_logical):
            places = placement.logical_to_physical[layer, expert]
            count = placement.replica_counts[layer, expert]
            assert places[:count].tolist() == np.flatnonzero(row == expert).tolist()
            assert np.all(places[count:] == -1)
    assert placement.logical_to_physical.shape[2] == placement.num_physical - placement.num_logical + 1


def test_initial_placement_repeats_the_first_experts():
    placement = ExpertPlacement.initial(2, 5, ExpertPlacement.round_up(5, 1, 4), 4)
    assert placement.physical_to_logical.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2]] * 2
    assert placement.replica_counts.tolist() == [[2, 2, 2, 1, 1]] * 2
    assert placement.logical_to_physical[0].tolist() == [[0, 5, -1, -1], [1, 6, -1, -1], [2, 7, -1, -1]] + [
        [3, -1, -1, -1],
        [4, -1, -1, -1],
    ]
    assert placement.slots_per_rank == 2
    assert [placement.rank_of(place) for place in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("experts", "extra", "ranks", "places"), [(16, 0, 4, 16), (16, 0, 6, 18), (3, 0, 8, 8), (384, 1, 64, 448)]
)
def test_places_are_rounded_up_to_a_multiple_of_the_ranks(experts, extra, ranks, places):
    assert ExpertPlacement.round_up(experts, extra, ranks) == places


def test_a_placement_cannot_be_changed_nor_leave_an_expert_out():
    placement = ExpertPlacement.initial(1, 2, 2, 1)
    for array in (placement.physical_to_logical, placement.logical_to_physical, placement.replica_counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    with pytest.raises(AssertionError, match="without a place"):
        ExpertPlacement.of_physical([[0, 0]], 2, 1)


def test_window_keeps_the_newest_steps_in_order():
    window = LoadWindow(3, 1, 2)
    assert window.loads().shape == (0, 1, 2)
    for step in range(5):
        window.add([[step, 10 * step]])
        assert window.loads()[:, 0, 0].tolist() == list(range(max(0, step - 2), step + 1))
