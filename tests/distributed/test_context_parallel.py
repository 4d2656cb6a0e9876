"""Ranks that share the rows of prefill steps give what one engine gives, to the last bit."""

import numpy as np
import pytest
import torch

from deepinfer.models.deepseek_v41.row_share import RowShare
from tests.distributed.equal_outputs import check
from tests.distributed.rank_world import RankWorld
from tests.support.golden_case import GOLDEN


class Place:
    """A rank's place in a group."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


@pytest.mark.parametrize(("size", "lengths"), [(1, [3]), (2, [10]), (2, [1, 0, 7, 3]), (4, [65, 2, 8]), (3, [])])
def test_zigzag_shares(size, lengths):
    """Rank r has pieces r and 2 c - 1 - r of each sequence; gathering undoes it."""
    lengths = np.asarray(lengths, dtype=np.int64)
    shares = [RowShare.zigzag(Place(rank, size), lengths, torch.device("cpu")) for rank in range(size)]
    rows = torch.arange(int(lengths.sum()))
    parts = [share.of(rows).tolist() for share in shares]
    want = [[] for _ in range(size)]
    first = 0
    for length in lengths.tolist():
        piece = -(-length // (2 * size))
        for row in range(length):
            number = row // piece
            want[min(number, 2 * size - 1 - number)].append(first + row)
        first += length
    assert parts == want
    if size == 2 and lengths.tolist() == [10]:  # the example of spec/engine.md 5.3
        assert parts == [[0, 1, 2, 9], [3, 4, 5, 6, 7, 8]]
    kept = rows[rows % 3 != 1]
    for share, part in zip(shares, parts, strict=True):
        narrowed = share.narrowed(kept)
        own = [row for row in part if row % 3 != 1]
        assert kept[narrowed.of(torch.arange(len(kept)))].tolist() == own
        assert [part[place] for place in share.own_places(kept).tolist()] == own


def replica(size, **others):
    return {"context_parallel_size": size, **others}


def test_two_ranks_of_a_replica(world2, random_model):
    check(world2, str(random_model), replica(2, expert_parallel_size=2), {"numerics": "fp32"}, [0, 0, 0, 0])


def test_two_ranks_with_compact_consumers(world2, random_model):
    options = {"numerics": "official", "backend": "cpu", "yoco": "compact"}
    check(world2, str(random_model), replica(2, engram_parallel_size=2), options, [0, 0, 0])


def test_two_replicas_of_two_ranks(world4):
    sizes = replica(2, data_parallel_size=2, expert_parallel_size=4)
    check(world4, str(GOLDEN / "nano-s1"), sizes, {"numerics": "fp32", "speculative": "off"}, [1, 0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "context", "experts"), [(1, 3, 3), (2, 3, 2), (3, 2, 6), (1, 8, 8), (4, 2, 4), (2, 4, 1)]
)
@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_other_sizes(random_model, data, context, experts, numerics):
    with RankWorld(data * context) as world:
        for model in (str(random_model), None, str(GOLDEN / "nano-s1")):
            groups = replica(context, data_parallel_size=data, expert_parallel_size=experts)
            for yoco in ("off", "mask"):
                owners = [(3 * i + 1) % data for i in range(5)]
                check(world, model, groups, {"numerics": numerics, "yoco": yoco}, owners)
