"""Sends rows to the ranks that hold their experts and brings the experts' outputs back (expert parallelism)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from deepinfer.distributed.board_numbers import BoardNumbers
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.in_flight import InFlight, Turns
from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.row_bytes import row_bytes
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.distributed.static_exchange import StaticExchange

Compute = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class RowTargets:
    """Where the rows of one layer go; made by `ExpertExchange.begin`. Rows that go are in the order of their ranks.

    Attributes:
        row: int64 [n] each row that goes.
        slots: int64 [n, k] the places of the rank it goes to that its picks have; -1 for picks that lie elsewhere.
        picks: row and number, int64 [m] each, of every pick, in the order in which outputs come back.
        rows_out, pairs_back: rows to and outputs from each rank.
        arriving: (rows, outputs) that each rank sends and wants, int64 [size, 2], on its way.
    """

    row: torch.Tensor
    slots: torch.Tensor
    picks: tuple[torch.Tensor, torch.Tensor]
    rows_out: list[int]
    pairs_back: list[int]
    arriving: InFlight | BoardNumbers


class ExpertExchange:
    """The routed experts of one layer, spread over a group of ranks.

    A row goes once to every rank that holds some of its experts. Each expert's output comes back by itself, rounded as
    without ranks, and the row's own rank adds them in the order of the picks: so the sum has the same bits whatever the
    placement and the number of ranks. Which copy of an expert is taken follows from rank and row number alone.

    Attributes:
        num_experts: logical experts.
        placement: of this one layer.
        table: the same on the device, and how often rows of this rank have picked each expert.
        static: the same exchange for rows of which all ranks have equally many.
        own_experts: logical experts in this rank's places, in order.
        weights: [places of this rank, ...] each, what the experts consist of; moved by `ExpertMover`.
    """

    placement: ExpertPlacement
    own_experts: list[int]

    def __init__(
        self,
        comm: RankComm,
        num_experts: int,
        num_redundant: int,
        device: torch.device,
        counts_picks: bool = True,
    ) -> None:
        """Args:
        comm: the ranks.
        num_experts: logical experts of the layer.
        num_redundant: places beyond them, at least.
        device: of the rows.
        counts_picks: whether `ExpertBalancer` will ask how often each expert is picked.
        """
        self._comm = comm
        self.num_experts = num_experts
        self.weights: tuple[torch.Tensor, ...] = ()
        num_places = ExpertPlacement.round_up(num_experts, num_redundant, comm.size)
        placement = ExpertPlacement.initial(1, num_experts, num_places, comm.size)
        self.table = PlaceTable(placement, comm.rank, counts_picks, device)
        self.static = StaticExchange(comm, self.table, placement.slots_per_rank, device)
        self.place_by(placement)

    def place_by(self, placement: ExpertPlacement) -> None:
        """Take a placement of this one layer; the weights lie there, or are about to be read."""
        self.placement = placement
        self._num_slots = placement.slots_per_rank
        first = self._comm.rank * self._num_slots
        self.own_experts = placement.physical_to_logical[0, first : first + self._num_slots].tolist()
        self.table.take(placement)

    def begin(self, ids: torch.Tensor) -> RowTargets:
        """Find out where rows with the experts `ids`, int64 [T, k], go, and begin to tell those ranks how many come.

        Every rank of the group calls this and then `run`, also one without rows; in between it may do something else.
        The host waits for its device once, here.
        """
        self.table.count(ids)
        places = self.table.places(ids)
        owners, slots = places // self._num_slots, places % self._num_slots
        ranks = torch.arange(self._comm.size, device=ids.device)
        goes = (owners == ranks[:, None, None]).any(2)  # [size, T]
        num_pairs = (owners == ranks[:, None, None]).sum((1, 2))
        counts = torch.stack((goes.sum(1), num_pairs), 1).cpu()
        arriving = self._comm.start_counts(counts)
        rows_out, pairs_back = counts.T.tolist()
        target, row = torch.nonzero_static(goes, size=sum(rows_out)).T  # by rank, then row
        sent_slots = torch.where(owners[row] == target[:, None], slots[row], -1)
        place, pick = torch.nonzero_static(sent_slots >= 0, size=sum(pairs_back)).T
        return RowTargets(row, sent_slots, (row[place], pick), rows_out, pairs_back, arriving)

    def run(
        self, targets: RowTargets, x: torch.Tensor, weights: torch.Tensor, packing: RowPacking, compute: Compute
    ) -> Turns[torch.Tensor]:
        """Outputs of each row's experts, [T, k, D] in the activation dtype.

        Args:
            targets: where rows go.
            x: bf16 or float32 [T, D] input rows.
            weights: float32 [T, k] of the rows' experts.
            packing: how rows travel.
            compute: (rows [n, D], slots int64 [n, 1] of this rank's places, weights float32 [n, 1]) -> outputs [n, D]
                in the activation dtype; called with rows of all ranks, at least one.
        """
        row, rows_out, pairs_back = targets.row, targets.rows_out, targets.pairs_back
        rows_in, pairs_out = targets.arriving.wait().T.tolist()
        rows = packing.pack(x[row], targets.slots, weights[row])
        came = yield self._comm.start_rows(rows, rows_out, rows_in, "dispatch")
        outputs = self._compute(packing.unpack(came, weights.shape[1]), sum(pairs_out), compute)
        returned = yield self._comm.start_rows(row_bytes(outputs), pairs_out, pairs_back, "combine")
        parts = outputs.new_empty((*weights.shape, x.shape[1]))
        parts[targets.picks] = packing.of_bytes(returned)
        return parts

    @staticmethod
    def _compute(
        came: tuple[torch.Tensor, torch.Tensor, torch.Tensor], num_picks: int, compute: Compute
    ) -> torch.Tensor:
        """Outputs of what came, (x, slots, weights): of each row its picks with a place here, in order."""
        x, slots, weights = came
        if not num_picks:
            return x[:0]
        row, pick = torch.nonzero_static(slots >= 0, size=num_picks).T
        return compute(x[row], slots[row, pick].unsqueeze(1), weights[row, pick].unsqueeze(1))
