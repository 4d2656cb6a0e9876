"""Sends rows to the ranks that hold their experts and brings the experts' outputs back (expert parallelism)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_packing import RowPacking

Compute = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class ExpertExchange:
    """The routed experts of one layer, spread over a group of ranks.

    A row goes once to every rank that holds some of its experts. Each expert's output comes back by itself, rounded as
    without ranks, and the row's own rank adds them in the order of the picks: so the sum has the same bits whatever the
    placement and the number of ranks. Which copy of an expert is taken follows from rank and row number alone.

    Attributes:
        num_experts: logical experts.
        placement: of this one layer.
        table: the same on the device, and how often rows of this rank have picked each expert.
        own_experts: logical experts in this rank's places, in order.
        weights: [places of this rank, ...] each, what the experts consist of; moved by `ExpertMover`.
    """

    placement: ExpertPlacement
    own_experts: list[int]

    def __init__(self, comm: RankComm, num_experts: int, num_redundant: int) -> None:
        """Args:
        comm: the ranks.
        num_experts: logical experts of the layer.
        num_redundant: places beyond them, at least.
        """
        self._comm = comm
        self.num_experts = num_experts
        self.weights: tuple[torch.Tensor, ...] = ()
        num_places = ExpertPlacement.round_up(num_experts, num_redundant, comm.size)
        placement = ExpertPlacement.initial(1, num_experts, num_places, comm.size)
        self.table = PlaceTable(placement, comm.rank)
        self.place_by(placement)

    def place_by(self, placement: ExpertPlacement) -> None:
        """Take a placement of this one layer; the weights lie there, or are about to be read."""
        self.placement = placement
        self._num_slots = placement.slots_per_rank
        first = self._comm.rank * self._num_slots
        self.own_experts = placement.physical_to_logical[0, first : first + self._num_slots].tolist()
        self.table.take(placement)

    def run(
        self, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, packing: RowPacking, compute: Compute
    ) -> torch.Tensor:
        """Outputs of each row's experts. Every rank of the group calls this together, also one without rows.

        Args:
            x: bf16 or float32 [T, D] input rows.
            ids: int64 [T, k] logical experts.
            weights: float32 [T, k].
            packing: how rows travel.
            compute: (rows [n, D], slots int64 [n, 1] of this rank's places, weights float32 [n, 1]) -> outputs [n, D]
                in the activation dtype; called with rows of all ranks, at least one.

        Returns:
            [T, k, D] in the activation dtype.
        """
        self.table.count(ids)
        places = self.table.places(ids)
        owners, slots = places // self._num_slots, places % self._num_slots
        ranks = torch.arange(self._comm.size, device=x.device)
        goes = (owners == ranks[:, None, None]).any(2)  # [size, T]
        target, row = goes.nonzero(as_tuple=True)  # by rank, then row
        sent_slots = torch.where(owners[row] == target[:, None], slots[row], -1)
        num_pairs = (owners == ranks[:, None, None]).sum((1, 2))
        counts = torch.stack((goes.sum(1), num_pairs), 1).cpu()
        arriving = self._comm.exchange_counts(counts)
        rows_out, pairs_back = counts.T.tolist()
        rows_in, pairs_out = arriving.T.tolist()
        received = self._comm.exchange_rows(packing.pack(x[row], sent_slots, weights[row]), rows_out, rows_in)
        outputs = self._compute(*packing.unpack(received, ids.shape[1]), packing, compute)
        returned = self._comm.exchange_rows(packing.as_bytes(outputs), pairs_out, pairs_back)
        parts = outputs.new_empty((*ids.shape, x.shape[1]))
        place, pick = (sent_slots >= 0).nonzero(as_tuple=True)
        parts[row[place], pick] = packing.of_bytes(returned)
        return parts

    @staticmethod
    def _compute(
        x: torch.Tensor, slots: torch.Tensor, weights: torch.Tensor, packing: RowPacking, compute: Compute
    ) -> torch.Tensor:
        """Outputs of what came: of each row its picks with a place here, in order."""
        row, pick = (slots >= 0).nonzero(as_tuple=True)
        if not row.shape[0]:
            return x.new_empty((0, x.shape[1]), dtype=packing.act_dtype)
        return compute(x[row], slots[row, pick].unsqueeze(1), weights[row, pick].unsqueeze(1))
