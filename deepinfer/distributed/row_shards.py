"""A table whose rows are spread over ranks: each asks the others for the rows that it needs."""

from __future__ import annotations

import torch

from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.static_rows import StaticRows


class RowShards:
    """Rank r of the group has the r-th run of rows, all of one length but the last ones. Lives in host memory.

    Args:
        comm: the ranks.
        num_rows: of the whole table.

    Attributes:
        static: gives values of rows where as many are asked for on every rank.
    """

    def __init__(self, comm: RankComm, num_rows: int) -> None:
        self._comm = comm
        self._num_rows = num_rows
        self._per_rank = -(-num_rows // comm.size)
        self._parts: tuple[torch.Tensor, ...] = ()
        self.static = StaticRows(comm, self._per_rank)

    @property
    def own(self) -> slice:
        """Rows of this rank; may be none."""
        first = min(self._comm.rank * self._per_rank, self._num_rows)
        return slice(first, min(first + self._per_rank, self._num_rows))

    def put(self, *parts: torch.Tensor) -> None:
        """Take the own rows: uint8 [n, bytes] each, what a row consists of. They are kept, not copied."""
        num_own = self.own.stop - self.own.start
        assert all(part.shape[0] == num_own for part in parts), ([part.shape for part in parts], self.own)
        self._parts = parts

    def fetch(self, numbers: torch.Tensor) -> torch.Tensor:
        """Rows of any rank. All ranks of the group call this together, also for no rows.

        Args:
            numbers: int64 [n] on the CPU, ascending, each once.

        Returns:
            uint8 [n, bytes], the parts behind each other.
        """
        num_asked = torch.bincount(numbers // self._per_rank, minlength=self._comm.size)
        num_given = self._comm.exchange_counts(num_asked)
        asked, given = num_asked.tolist(), num_given.tolist()
        wanted = self._comm.exchange_rows(numbers.view(torch.uint8).view(-1, 8), asked, given)
        places = wanted.reshape(-1).view(torch.int64) - self.own.start
        return self._comm.exchange_rows(torch.cat([part[places] for part in self._parts], dim=1), given, asked)
