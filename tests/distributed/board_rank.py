"""Runs on a rank: numbers over shared memory."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.distributed.number_board import MOST_NUMBERS
from deepinfer.distributed.rank_groups import RankGroups


def numbers_of_all(rank: int, size: int) -> tuple[bool, list[list[int]], list[list[int]], int]:
    """Whether there is a board; what is gathered; what comes of counts, three exchanges under way; numbers too many for
    a board.
    """
    comm = RankGroups.join(ParallelConfig(size, expert_parallel_size=size), rank, torch.device("cpu")).experts
    assert comm is not None
    gathered = [comm.gather_numbers([rank, -step, 2**40]).tolist() for step in range(20)][-1]
    counts = torch.arange(2 * size).view(size, 2) + 100 * rank
    arriving = [comm.start_counts(counts + step) for step in range(3)]
    came = torch.stack([numbers.wait() - step for step, numbers in enumerate(arriving)])
    assert (came == came[0]).all()
    many = comm.gather_numbers(np.arange(MOST_NUMBERS + 1).tolist())
    return comm._board is not None, gathered, came[0].tolist(), int(many.sum())
