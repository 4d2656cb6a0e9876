"""Groups of ranks, and the checks of their sizes."""

import itertools

import pytest

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.distributed.rank_layout import RankLayout
from deepinfer.errors import ConfigError


def test_groups_of_eight_ranks():
    """The example of spec/engine.md 5.1: DP 4, CP 2, EP 8, Engram 8."""
    layout = RankLayout(ParallelConfig(4, 2, 8, 8))
    assert [layout.context_group(rank) for rank in (0, 3, 7)] == [(0, 1), (2, 3), (6, 7)]
    assert layout.data_group(4) == (0, 2, 4, 6) and layout.data_group(1) == (1, 3, 5, 7)
    assert layout.expert_group(5) == layout.engram_group(2) == tuple(range(8))
    assert [layout.replica_of(rank) for rank in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 1, 3, 1), (2, 2, 2, 4), (6, 1, 2, 3), (4, 2, 1, 2)])
def test_each_kind_of_group_covers_the_world_once(sizes):
    layout = RankLayout(ParallelConfig(*sizes))
    kinds = (layout.data_group, layout.context_group, layout.expert_group, layout.engram_group)
    for kind, size in zip(kinds, sizes, strict=True):
        groups = {kind(rank) for rank in layout.world}
        assert sorted(itertools.chain(*groups)) == list(layout.world)
        assert {len(group) for group in groups} == {size}
        assert all(rank in kind(rank) for rank in layout.world)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"data_parallel_size": 0}, "data_parallel_size = 0"),
        ({"data_parallel_size": True}, "data_parallel_size = True"),
        ({"data_parallel_size": 2, "expert_parallel_size": 3}, "expert_parallel_size = 3: expected a divisor of .* 2"),
        ({"data_parallel_size": 2, "engram_parallel_size": 4}, "engram_parallel_size = 4"),
        ({"data_parallel_size": 4096, "context_parallel_size": 2}, "4096 x 2"),
    ],
)
def test_wrong_sizes_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        ParallelConfig(**options)


def test_sizes_are_options_of_an_engine():
    sizes = EngineConfig.create(data_parallel_size=3, context_parallel_size=2, expert_parallel_size=6).parallel
    assert (sizes.world_size, sizes.lockstep_size) == (6, 6)
    assert ParallelConfig(6, 1, 2, 3).lockstep_size == 6 and ParallelConfig(4).lockstep_size == 1
