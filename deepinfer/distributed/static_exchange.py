"""Experts of other ranks without the host: the same operations on the same addresses, whatever the rows hold."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_packing import RowPacking

Compute = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]


class StaticExchange:
    """What `ExpertExchange` does, with shapes that follow from the number of rows alone, which has to be the same on
    every rank: nothing waits for the device, and a CUDA graph may hold it.

    Every rank gets the rows of all and computes the picks that lie in its places. Of each pick a place for its output
    goes back from every rank, and the row's own rank takes the one that was computed. So what moves is as much as with
    all picks on every rank: far less would, if the computing rank added a row's picks, but in another order, and with
    bits that follow the placement. That is not done.

    Args:
        comm: the ranks.
        table: where the experts lie.
        num_slots: places of a rank.
    """

    def __init__(self, comm: RankComm, table: PlaceTable, num_slots: int) -> None:
        self._comm = comm
        self._table = table
        self._num_slots = num_slots

    def run(
        self,
        rows: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        is_real: torch.Tensor,
        packing: RowPacking,
        compute: Compute,
    ) -> torch.Tensor:
        """Outputs of each row's experts. Every rank of the group calls this together.

        Args:
            rows: inputs bf16 or float32 [T, D]; logical experts int64 [T, k]; their weights float32 [T, k].
            is_real: bool [T]; the other rows are padding, which wakes no expert.
            packing: how rows travel.
            compute: (rows [n, D], slots int64 [n, k] of this rank's places with -1 for none, weights float32 [n, k],
                about how many are slots) -> outputs [n * k, D] in the activation dtype, anything for those without.

        Returns:
            [T, k, D] in the activation dtype; of padding rows anything.
        """
        x, ids, weights = rows
        num_picks, comm = ids.numel(), self._comm
        self._table.count(ids, is_real)
        places = torch.where(is_real[:, None], self._table.places(ids), -1)
        received = comm.gather_evenly(packing.pack(x, places, weights))
        all_rows, all_places, all_weights = packing.unpack(received, ids.shape[1])
        slots = all_places - comm.rank * self._num_slots
        slots = torch.where((slots >= 0) & (slots < self._num_slots), slots, -1)
        outputs = compute(all_rows, slots, all_weights, num_picks)
        returned = comm.exchange_evenly(packing.as_bytes(outputs)).view(packing.act_dtype)
        owners = places.clamp(min=0) // self._num_slots
        picks = torch.arange(num_picks, device=ids.device).view(ids.shape)
        return returned.view(comm.size, num_picks, -1)[owners, picks]
