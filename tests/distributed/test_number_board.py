"""Numbers over shared memory come as over the network; a rank that is gone is not waited for."""

import mmap
import os
import random
import subprocess
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from deepinfer.distributed import number_board
from deepinfer.distributed.number_board import MOST_NUMBERS, NumberBoard
from deepinfer.errors import PeerLostError
from tests.distributed.board_rank import numbers_of_all

SIZE = 8 * 8 * 2 * MOST_NUMBERS  # bytes for two ranks


def board(pages, rank, pids=(0, 0)):
    return NumberBoard(pages, SimpleNamespace(rank=rank, size=2, ranks=(0, 1)), list(pids))


def test_ranks_of_one_machine(world2):
    for rank, (has_board, gathered, came, total) in enumerate(world2.run(numbers_of_all, 2)):
        assert has_board
        assert gathered == [[0, -19, 2**40], [1, -19, 2**40]]
        assert came == [[2 * rank, 2 * rank + 1], [100 + 2 * rank, 101 + 2 * rank]]
        assert total == MOST_NUMBERS * (MOST_NUMBERS + 1)


def test_rounds_under_way_do_not_meet():
    """Two ranks at random paces, up to four rounds each not taken yet, over many times as many rounds as have cells."""
    pages, wrong = mmap.mmap(-1, SIZE), []

    def run(rank):
        own, numbers, waiting = board(pages, rank), random.Random(rank), []
        for step in range(1500):
            waiting.append((own.put(np.array([step, -rank])), step))
            while len(waiting) == 4 or (waiting and numbers.random() < 0.5):
                number, sent = waiting.pop(0)
                if own.take(number, 2).tolist() != [[sent, 0], [sent, -1]]:
                    wrong.append(sent)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not wrong


def test_a_rank_that_is_gone():
    gone = subprocess.Popen(["true"])  # nobody asks for its exit code
    own = board(mmap.mmap(-1, SIZE), 0, (os.getpid(), gone.pid))
    with pytest.raises(PeerLostError, match=f"rank 1 is gone: its process {gone.pid}"):
        own.take(own.put(np.array([3])), 1)
    gone.wait()


def test_without_common_memory_there_is_no_board(monkeypatch, tmp_path):
    """One rank by itself, so that nobody waits: no folder for the pages, or not the pages that were meant."""

    def comm(told):
        return SimpleNamespace(
            rank=0, size=1, ranks=(0,), broadcast=told, gather_numbers=lambda numbers: np.array([numbers])
        )

    assert NumberBoard.open(comm(lambda own: own)) is not None
    assert NumberBoard.open(comm(lambda own: (own[0], b"another token..."))) is None
    monkeypatch.setattr(number_board, "_FOLDER", tmp_path / "nothing")
    assert NumberBoard.open(comm(lambda own: own)) is None
