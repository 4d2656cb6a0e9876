"""Rows of a table that ranks share, with as few ranks as one."""

import pytest
import torch

from deepinfer.distributed.row_shards import RowShards


class Alone:
    """Rank `rank` of `size`, of which nobody else asks anything."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def exchange_counts(self, counts):
        assert counts.shape == (self.size,) and counts.sum() == counts[self.rank]
        return counts

    def exchange_rows(self, rows, num_out, num_in):
        assert num_out == num_in and sum(num_out) == rows.shape[0]
        return rows


@pytest.mark.parametrize(("num_rows", "size"), [(10, 3), (4, 4), (3, 8), (7, 1), (9, 8)])
def test_every_row_has_one_owner(num_rows, size):
    shards = [RowShards(Alone(rank, size), num_rows) for rank in range(size)]
    assert [row for shard in shards for row in range(num_rows)[shard.own]] == list(range(num_rows))
    table = torch.arange(3 * num_rows, dtype=torch.uint8).view(num_rows, 3)
    for shard in shards:
        shard.put(table[shard.own])
        own = torch.arange(num_rows)[shard.own]
        assert torch.equal(shard.fetch(own), table[own])
        assert shard.fetch(own[:0]).shape == (0, 3)
