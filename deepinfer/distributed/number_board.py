"""Numbers that ranks of one machine tell each other over shared memory, without a call into the kernel on the way."""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from deepinfer.errors import PeerLostError

if TYPE_CHECKING:
    from deepinfer.distributed.rank_comm import RankComm

MOST_NUMBERS: Final = 64  # of one rank in one round
_ROUNDS: Final = 8  # that have cells of their own
_TAG_BITS: Final = 20
_TAG_MASK: Final = (1 << _TAG_BITS) - 1
_MOST: Final = 1 << (63 - _TAG_BITS)
_FOLDER: Final = Path("/dev/shm")
# Waiting: look again at once, so often; then sleep, ever longer, so that ranks on the same cores get on.
_LOOKS: Final = 100
_SHORT_SLEEP: Final = 20e-6
_LONG_SLEEP: Final = 500e-6
_LIFE_CHECK_S: Final = 0.1


class NumberBoard:
    """Rows of cells, one row a rank, in pages that all ranks have mapped. Every rank makes the same calls in the same
    order. What takes 30 us here takes gloo hundreds: it hands every message to threads and to the network.

    A cell is a number with the round it belongs to in its low bits, written at once, so that no order between cells
    is asked of the processor. A round's cells are used again eight rounds later; a rank has at most four rounds under
    way, so whoever writes them has read what the others wrote four rounds ago, and they have read what it overwrites.

    Made by `open`.
    """

    def __init__(self, pages: mmap.mmap, comm: RankComm, pids: list[int]) -> None:
        """`pids`: of the ranks' processes."""
        self._cells = np.frombuffer(pages, np.int64).reshape(_ROUNDS, comm.size, MOST_NUMBERS)
        self._rank = comm.rank
        self._peers = [(rank, pid) for rank, pid in zip(comm.ranks, pids, strict=True) if pid != os.getpid()]
        self._round = 0

    @classmethod
    def open(cls, comm: RankComm) -> NumberBoard | None:
        """Called by every rank of a group, which then has a board; None, for all, where not all can map the same pages
        and see each other's processes, since they are on several machines or in containers.
        """
        size = 8 * _ROUNDS * comm.size * MOST_NUMBERS
        own = _create(size) if comm.rank == 0 else None
        path, token = comm.broadcast(own)
        pids = comm.gather_numbers([os.getpid()])[:, 0].tolist()
        pages = _mapped(path, token, size)
        sees_all = pages is not None and not any(map(_is_gone, pids))
        is_shared = bool(comm.gather_numbers([int(sees_all)]).all())
        if own is not None and path:
            os.unlink(path)  # the mapping lives on
        if pages is None or not is_shared:
            return None
        pages[: len(token)] = bytes(len(token))
        comm.gather_numbers([0])  # nobody writes numbers before all have done so
        return cls(pages, comm, pids)

    def put(self, numbers: np.ndarray) -> int:
        """Tell everybody, int64 [n], n <= MOST_NUMBERS, each below 2**43; the round, for `take`."""
        assert len(numbers) <= MOST_NUMBERS and (np.abs(numbers) < _MOST).all(), "numbers that no cell takes"
        self._round += 1
        tag = self._round & _TAG_MASK
        self._cells[self._round % _ROUNDS, self._rank, : len(numbers)] = (numbers << _TAG_BITS) | tag
        return self._round

    def take(self, number: int, count: int) -> np.ndarray:
        """Everybody's first `count` numbers of a round, int64 [size, count]; waits for them. PeerLostError when a
        process is gone that has not written them.
        """
        cells, tag = self._cells[number % _ROUNDS, :, :count], number & _TAG_MASK
        looks, look_for_life = 0, time.monotonic() + _LIFE_CHECK_S
        while True:
            words = cells.copy()
            has_come = (words & _TAG_MASK) == tag
            if has_come.all():
                return words >> _TAG_BITS
            looks += 1
            if looks < _LOOKS:
                os.sched_yield()
                continue
            time.sleep(_SHORT_SLEEP if looks < 2 * _LOOKS else _LONG_SLEEP)
            if time.monotonic() > look_for_life:
                self._require_peers()
                look_for_life = time.monotonic() + _LIFE_CHECK_S

    def _require_peers(self) -> None:
        for rank, pid in self._peers:
            if _is_gone(pid):
                raise PeerLostError(f"rank {rank} is gone: its process {pid} has ended")


def _create(size: int) -> tuple[str, bytes]:
    """A file for the pages, with a token in front by which its other users know it; an empty name where none can be
    made.
    """
    token = secrets.token_bytes(16)
    try:
        descriptor, path = tempfile.mkstemp(prefix="deepinfer-", dir=_FOLDER)
        with os.fdopen(descriptor, "wb") as file:
            file.write(token.ljust(size, b"\0"))
    except OSError:
        return "", token
    return path, token


def _mapped(path: str, token: bytes, size: int) -> mmap.mmap | None:
    try:
        with open(path, "r+b") as file:
            pages = mmap.mmap(file.fileno(), size)
    except (OSError, ValueError):
        return None
    return pages if pages[: len(token)] == token else None


def _is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has asked for its exit code yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"
