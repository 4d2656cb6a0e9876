"""Layers of true shape, few experts of them, on several GPUs: the bits of one, also while experts move."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.equal_outputs import check
from tests.distributed.multigpu.conftest import GPU_SIZES
from tests.distributed.multigpu.wide_ep_cases import OFFICIAL, SHUFFLED
from tests.gpu.slice_model import write_slice

NUM_EXPERTS = 16
OPTIONS = OFFICIAL | {"load_format": "dummy", "kv_cache_bytes": 2**31}


@pytest.fixture(scope="module")
def slice_directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random weights follow from their names alone."""
    directory: Path = tmp_path_factory.mktemp("slice")
    return str(write_slice(directory, n_routed_experts=NUM_EXPERTS, dspark_n_routed_experts=NUM_EXPERTS))


@pytest.mark.multigpu
@pytest.mark.parametrize("size", GPU_SIZES)
def test_outputs_are_those_of_one_gpu(world_of, slice_directory, size):
    world = world_of("cuda", size)
    sizes = {f"{kind}_parallel_size": size for kind in ("data", "expert", "engram")}
    moves = check(world, slice_directory, sizes | SHUFFLED, OPTIONS, [i % size for i in range(size + 1)])
    for of_layers, *_ in moves:
        assert of_layers[0] > 1 and of_layers[1] > 0
