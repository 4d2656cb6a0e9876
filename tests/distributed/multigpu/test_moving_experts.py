"""Experts move between ranks while requests run, over NVLink where ranks are GPUs: the right weights, the same bits."""

import pytest

from tests.distributed.equal_outputs import check
from tests.distributed.moved_weights import follow_placements
from tests.distributed.multigpu.conftest import PLACES
from tests.distributed.multigpu.wide_ep_cases import MOVING


@pytest.mark.parametrize(("num_experts", "num_redundant"), [(8, 0), (5, 6)])
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_weights_follow_their_placement(world_of, device, size, num_experts, num_redundant):
    moved = world_of(device, size).run(follow_placements, device, size, num_experts, num_redundant)
    assert moved[0] > 8 and len(set(moved)) == 1


@pytest.mark.parametrize("case", MOVING, ids=lambda case: case.name)
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_outputs_are_the_same_behind_a_rearrangement(world_of, device, size, case, random_model):
    world = world_of(device, size)
    if size < case.smallest:
        pytest.skip(f"needs {case.smallest} ranks")
    moves = check(world, case.model_path(random_model), case.sizes(size), case.options, case.owners(size))
    for of_layers, *_ in moves:
        assert of_layers[0] > 1 and of_layers[1] > 0
