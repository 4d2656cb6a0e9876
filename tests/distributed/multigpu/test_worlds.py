"""Ranks that share experts, rows or tables give what one engine gives on one device: on CPUs, and on GPUs over NCCL.
Experts move between them while requests run, over NVLink where ranks are GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.distributed.equal_outputs import check
from tests.distributed.moved_weights import follow_placements
from tests.distributed.multigpu.conftest import GPU_SIZES, PLACES
from tests.distributed.multigpu.wide_ep_cases import CASES, MOVING, OFFICIAL, SHUFFLED, WideEPCase
from tests.distributed.rank_world import RankWorld
from tests.gpu.slice_model import write_slice

WorldOf = Callable[[str, int], RankWorld]

NUM_EXPERTS = 16  # of the layers of true shape


def world_for(world_of: WorldOf, device: str, size: int, case: WideEPCase) -> RankWorld:
    if size < case.smallest:
        pytest.skip(f"needs {case.smallest} ranks")
    return world_of(device, size)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_outputs_are_those_of_one_engine(
    world_of: WorldOf, device: str, size: int, case: WideEPCase, random_model: Path
) -> None:
    world, is_exact = world_for(world_of, device, size, case), case.is_exact or device == "cpu"
    check(world, case.model_path(random_model), case.sizes(size), case.options, case.owners(size), is_exact)


@pytest.mark.parametrize(("num_experts", "num_redundant"), [(8, 0), (5, 6)])
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_weights_follow_their_placement(
    world_of: WorldOf, device: str, size: int, num_experts: int, num_redundant: int
) -> None:
    moved = world_of(device, size).run(follow_placements, device, size, num_experts, num_redundant)
    assert moved[0] > 8 and len(set(moved)) == 1


@pytest.mark.parametrize("case", MOVING, ids=lambda case: case.name)
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_outputs_are_the_same_behind_a_rearrangement(
    world_of: WorldOf, device: str, size: int, case: WideEPCase, random_model: Path
) -> None:
    world = world_for(world_of, device, size, case)
    moves = check(world, case.model_path(random_model), case.sizes(size), case.options, case.owners(size))
    for of_layers, *_ in moves:
        assert of_layers[0] > 1 and of_layers[1] > 0


@pytest.mark.multigpu
@pytest.mark.parametrize("size", GPU_SIZES)
def test_layers_of_true_shape(world_of: WorldOf, size: int, tmp_path: Path) -> None:
    """Few experts of them; random weights, which follow from their names alone."""
    world = world_of("cuda", size)
    directory = write_slice(tmp_path, n_routed_experts=NUM_EXPERTS, dspark_n_routed_experts=NUM_EXPERTS)
    options = OFFICIAL | {"load_format": "dummy", "kv_cache_bytes": 2**31}
    sizes = {f"{kind}_parallel_size": size for kind in ("data", "expert", "engram")}
    moves = check(world, str(directory), sizes | SHUFFLED, options, [i % size for i in range(size + 1)])
    for of_layers, *_ in moves:
        assert of_layers[0] > 1 and of_layers[1] > 0
