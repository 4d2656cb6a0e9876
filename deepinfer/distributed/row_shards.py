"""A table whose rows are spread over ranks: each asks the others for the rows that it needs."""

from __future__ import annotations

import torch

from deepinfer.distributed.rank_comm import RankComm


class RowShards:
    """Rank r of the group has the r-th run of rows, all of one length but the last ones. Lives in host memory.

    Args:
        comm: the ranks.
        num_rows: of the whole table.
    """

    def __init__(self, comm: RankComm, num_rows: int) -> None:
        self._comm = comm
        self._num_rows = num_rows
        self._per_rank = -(-num_rows // comm.size)
        self._rows = torch.empty((0, 0), dtype=torch.uint8)

    @property
    def own(self) -> slice:
        """Rows of this rank; may be none."""
        first = min(self._comm.rank * self._per_rank, self._num_rows)
        return slice(first, min(first + self._per_rank, self._num_rows))

    def put(self, rows: torch.Tensor) -> None:
        """Take the own rows, uint8 [n, bytes]."""
        assert rows.shape[0] == self.own.stop - self.own.start, (rows.shape, self.own)
        self._rows = rows.contiguous()

    def fetch(self, numbers: torch.Tensor) -> torch.Tensor:
        """Rows of any rank. All ranks of the group call this together, also for no rows.

        Args:
            numbers: int64 [n] on the CPU, ascending, each once.

        Returns:
            uint8 [n, bytes].
        """
        num_asked = torch.bincount(numbers // self._per_rank, minlength=self._comm.size)
        num_given = self._comm.exchange_counts(num_asked)
        asked, given = num_asked.tolist(), num_given.tolist()
        wanted = self._comm.exchange_rows(numbers.view(torch.uint8).view(-1, 8), asked, given)
        places = wanted.reshape(-1).view(torch.int64) - self.own.start
        return self._comm.exchange_rows(self._rows[places], given, asked)
