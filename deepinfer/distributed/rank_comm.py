"""What a rank says to the other ranks of a group: collectives over torch.distributed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from deepinfer.distributed.board_numbers import BoardNumbers
from deepinfer.distributed.in_flight import InFlight
from deepinfer.distributed.number_board import MOST_NUMBERS, NumberBoard
from deepinfer.distributed.peer_calls import peer_calls

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before torch 2.13


class RankComm:
    """One group of ranks, as one of them sees it. Every rank of the group makes the same calls in the same order.

    Numbers go over shared memory where all are on one machine and have opened a board, else over gloo; tensors over
    gloo on a CPU and NCCL on a GPU. PeerLostError when a peer is gone.

    Attributes:
        ranks: of the group, ascending, as numbers of the world.
        rank, size: place in the group, and its ranks.
    """

    def __init__(self, ranks: Sequence[int], world_rank: int, group: dist.ProcessGroup) -> None:
        """`group`: of these ranks, with a backend for each kind of device."""
        self.ranks = tuple(ranks)
        self.rank = self.ranks.index(world_rank)
        self.size = len(self.ranks)
        self._group = group
        self._board: NumberBoard | None = None

    def open_board(self) -> None:
        """Once, together: from now on numbers go over shared memory, if that is possible."""
        self._board = NumberBoard.open(self)

    def meet(self, device: torch.device) -> None:
        """Connect to all others for tensors on `device`, once, before memory is planned.

        NCCL connects, and takes buffers in a GPU's memory, when a group is first used, each kind of exchange for
        itself; and what some ranks of a group alone do (`move`) must not be the first that the group does.
        """
        rows = torch.zeros((self.size, 1), dtype=torch.uint8, device=device)
        ones = [1] * self.size
        self.exchange_rows(rows, ones, ones)
        self.gather_rows(rows[:1], ones)
        self.exchange_evenly(self.gather_evenly(rows[:1]))

    def gather_numbers(self, numbers: Sequence[int]) -> np.ndarray:
        """Everybody's numbers: int64 [size, n]."""
        if self._board is not None and len(numbers) <= MOST_NUMBERS:
            return self._board.take(self._board.put(np.array(numbers, dtype=np.int64)), len(numbers))
        own = torch.tensor(list(numbers), dtype=torch.int64)
        everyone = torch.empty((self.size, len(own)), dtype=torch.int64)
        with peer_calls():
            dist.all_gather(list(everyone), own, group=self._group)
        return everyone.numpy()

    def exchange_counts(self, counts: torch.Tensor) -> torch.Tensor:
        """To rank r goes counts[r], int64 [size] or [size, n] on the CPU; what came from each, of the same shape."""
        return self.start_counts(counts).wait()

    def start_counts(self, counts: torch.Tensor) -> InFlight | BoardNumbers:
        """The same, on its way, with at most three others."""
        if self._board is not None and counts.numel() <= MOST_NUMBERS:
            return BoardNumbers(self._board, self._board.put(counts.flatten().numpy()), counts.shape, self.rank)
        return self._start(counts.contiguous(), torch.empty_like(counts), None, None, "counts")

    def exchange_rows(self, rows: torch.Tensor, num_out: list[int], num_in: list[int]) -> torch.Tensor:
        """To rank r goes the r-th part of `rows`.

        Args:
            rows: uint8 [sum(num_out), bytes], parts behind each other.
            num_out, num_in: rows to and from each rank.

        Returns:
            uint8 [sum(num_in), bytes], the parts in the order of their ranks.
        """
        return self.start_rows(rows, num_out, num_in, "rows").wait()

    def start_rows(self, rows: torch.Tensor, num_out: list[int], num_in: list[int], name: str) -> InFlight:
        """The same, on its way; `name` in a trace."""
        return self._start(rows.contiguous(), rows.new_empty((sum(num_in), rows.shape[1])), num_in, num_out, name)

    def gather_evenly(self, rows: torch.Tensor) -> torch.Tensor:
        """Everybody's rows, rank by rank, equally many of each: uint8 [size * n, bytes] from uint8 [n, bytes].

        On a GPU this and the next are launches alone, which a CUDA graph may hold.
        """
        received = rows.new_empty((self.size * rows.shape[0], rows.shape[1]))
        with peer_calls():
            _all_gather(received, rows.contiguous(), group=self._group)
        return received

    def exchange_evenly(self, rows: torch.Tensor) -> torch.Tensor:
        """To rank r goes the r-th of `size` equal parts of `rows`, uint8 [size * n, bytes]; what came, likewise."""
        received = torch.empty_like(rows)
        with peer_calls():
            dist.all_to_all_single(received, rows.contiguous(), group=self._group)
        return received

    def sum_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of everybody's, int64 of any shape."""
        total = torch.from_numpy(np.array(numbers, dtype=np.int64))
        with peer_calls():
            dist.all_reduce(total, group=self._group)
        return total.numpy()

    def move(self, sends: list[tuple[int, torch.Tensor]], receives: list[tuple[int, torch.Tensor]]) -> None:
        """Point to point: tensors to ranks and, of the same sizes, from ranks. Between two ranks, what is sent first is
        received first.
        """
        jobs = [dist.P2POp(dist.isend, data, group=self._group, group_peer=rank) for rank, data in sends]
        jobs += [dist.P2POp(dist.irecv, data, group=self._group, group_peer=rank) for rank, data in receives]
        if jobs:
            with peer_calls():
                for work in dist.batch_isend_irecv(jobs):
                    work.wait()

    def gather_rows(self, rows: torch.Tensor, counts: list[int]) -> torch.Tensor:
        """Everybody's rows, rank by rank: uint8 [sum(counts), bytes] from own ones uint8 [counts[rank], bytes]."""
        longest = max(counts)
        if not longest:
            return rows
        padded = rows.new_zeros((longest, rows.shape[1]))
        padded[: rows.shape[0]] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        with peer_calls():
            dist.all_gather(parts, padded, group=self._group)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    def broadcast(self, value: Any) -> Any:
        """The value of the group's first rank; that of the others is not looked at."""
        packed = pickle.dumps(value) if self.rank == 0 else b""
        size = torch.tensor([len(packed)])
        with peer_calls():
            dist.broadcast(size, src=self.ranks[0], group=self._group)
            data = torch.empty(int(size), dtype=torch.uint8)
            if self.rank == 0:
                data = torch.frombuffer(bytearray(packed), dtype=torch.uint8)
            dist.broadcast(data, src=self.ranks[0], group=self._group)
        return value if self.rank == 0 else pickle.loads(data.numpy().tobytes())

    def _start(
        self,
        sent: torch.Tensor,
        received: torch.Tensor,
        num_in: list[int] | None,
        num_out: list[int] | None,
        name: str,
    ) -> InFlight:
        with peer_calls():
            work = dist.all_to_all_single(received, sent, num_in, num_out, group=self._group, async_op=True)
        return InFlight(work, sent, received, name)
