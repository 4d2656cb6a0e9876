"""The exchange of decode steps in CUDA graphs: one rank, whose rows go over NCCL to itself."""

from __future__ import annotations

import torch

from tests.distributed.rank_world import RankWorld
from tests.distributed.static_rank import exchange_both_ways


def test_replays_with_other_rows_and_placements(device: torch.device) -> None:
    with RankWorld(1, "cuda") as world:
        for quantize in (False, True):
            assert world.run(exchange_both_ways, 1, (8, 5), quantize, "cuda")[0] > 50
