"""Experts of other ranks without the host: the same operations on the same addresses, whatever the rows hold."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_bytes import row_bytes
from deepinfer.distributed.row_packing import RowPacking

Compute = Callable[..., torch.Tensor]


class StaticExchange:
    """What `ExpertExchange` does, with shapes that follow from the number of rows alone, which has to be the same on
    every rank: nothing waits for the device, and a CUDA graph may hold it.

    Every rank gets the rows of all and computes the picks that lie in its places. Of each pick a place for its output
    goes back from every rank, and the row's own rank takes the one that was computed. So what moves is as much as with
    all picks on every rank: far less would, if the computing rank added a row's picks, but in another order, and with
    bits that follow the placement. That is not done. Rows travel as they are: quantizing them is a dozen launches more
    on either side, for a few hundred kilobytes.

    Args:
        comm: the ranks.
        table: where the experts lie.
        num_slots: places of a rank.
        device: of the rows.
    """

    def __init__(self, comm: RankComm, table: PlaceTable, num_slots: int, device: torch.device) -> None:
        self._comm = comm
        self._table = table
        # By place; the last entry is that of place -1.
        owners = torch.arange(comm.size, device=device).repeat_interleave(num_slots)
        slots = torch.where(owners == comm.rank, torch.arange(num_slots, device=device).repeat(comm.size), -1)
        self._owners, self._slots = (torch.cat((of, of.new_full((1,), -1))) for of in (owners, slots))

    def run(
        self, rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor], is_real: torch.Tensor, compute: Compute
    ) -> torch.Tensor:
        """Outputs of each row's experts. Every rank of the group calls this together.

        Args:
            rows: inputs [T, D] in the activation dtype; logical experts int64 [T, k]; their weights float32 [T, k].
            is_real: bool [T]; the other rows are padding, which wakes no expert.
            compute: (rows [n, D], slots int64 [n, k] of this rank's places with -1 for none, weights float32 [n, k],
                likely=about how many are slots) -> outputs [n * k, D] in the activation dtype, anything for those
                without.

        Returns:
            [T, k, D] in the activation dtype; of padding rows anything.
        """
        x, ids, weights = rows
        num_picks, comm, packing = ids.numel(), self._comm, RowPacking(x.shape[1], False, x.dtype)
        self._table.count(ids, is_real)
        places = torch.where(is_real[:, None], self._table.places(ids), -1)
        received = comm.gather_evenly(packing.pack(x, places, weights))
        all_rows, all_places, all_weights = packing.unpack(received, ids.shape[1])
        outputs = compute(all_rows, self._slots[all_places], all_weights, likely=num_picks)
        returned = comm.exchange_evenly(row_bytes(outputs)).view(outputs.dtype)
        picks = torch.arange(num_picks, device=ids.device).view(ids.shape)
        return returned.view(comm.size, num_picks, -1)[self._owners[places], picks]
