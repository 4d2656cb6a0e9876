"""Table rows of other ranks without the host: the same operations on the same addresses, whatever is asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_bytes import row_bytes


class StaticRows:
    """What `RowShards` does, with shapes that follow from the number of asking rows alone, which has to be the same on
    every rank: nothing waits for the device, and a CUDA graph may hold it.

    Every rank gets the numbers that all ask for and looks up those of its run. Of each a place for its values goes back
    from every rank, and the asking rank takes those of the owner.

    Args:
        comm: the ranks.
        per_rank: rows of a run.
    """

    def __init__(self, comm: RankComm, per_rank: int) -> None:
        self._comm = comm
        self._per_rank = per_rank

    def run(self, rows: torch.Tensor, look_up: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Values of rows of the whole table. Every rank of the group calls this together.

        Args:
            rows: int64 [T, R], -1 for none.
            look_up: numbers int64 [n, R] in this rank's run, -1 for none -> values [n, R * d], zeros for none.

        Returns:
            [T, R * d].
        """
        comm, (num_rows, num_each) = self._comm, rows.shape
        everyone = comm.gather_evenly(row_bytes(rows)).view(torch.int64)
        is_own = everyone // self._per_rank == comm.rank
        values = look_up(torch.where(is_own, everyone - comm.rank * self._per_rank, -1))
        returned = comm.exchange_evenly(row_bytes(values)).view(values.dtype)
        owners = (rows.clamp(min=0) // self._per_rank).flatten()
        numbers = torch.arange(num_rows * num_each, device=rows.device)
        return returned.view(comm.size, num_rows * num_each, -1)[owners, numbers].view(num_rows, -1)
