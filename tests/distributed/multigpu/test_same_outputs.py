"""Ranks that share experts, rows or tables give what one engine gives on one device: on CPUs, and on GPUs over NCCL."""

import pytest

from tests.distributed.equal_outputs import check
from tests.distributed.multigpu.conftest import PLACES
from tests.distributed.multigpu.wide_ep_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize(("device", "size"), PLACES)
def test_outputs_are_those_of_one_engine(world_of, device, size, case, random_model):
    world = world_of(device, size)
    if size < case.smallest:
        pytest.skip(f"needs {case.smallest} ranks")
    is_exact = case.is_exact or device == "cpu"
    check(world, case.model_path(random_model), case.sizes(size), case.options, case.owners(size), is_exact)
