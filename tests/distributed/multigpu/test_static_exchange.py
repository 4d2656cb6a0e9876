"""The exchange of decode steps, replayed from CUDA graphs, against that with the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.distributed.multigpu.conftest import PLACES
from tests.distributed.rank_world import RankWorld
from tests.distributed.static_rank import exchange_both_ways


@pytest.mark.parametrize(("device", "size"), PLACES)
@pytest.mark.parametrize("num_redundant", [0, 5])
def test_replays_with_other_rows_and_placements(
    world_of: Callable[[str, int], RankWorld], device: str, size: int, num_redundant: int
) -> None:
    counts = world_of(device, size).run(exchange_both_ways, size, (16, num_redundant), True, device)
    assert counts[0] == 0 < sum(counts)
