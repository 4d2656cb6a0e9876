"""EPLB while the engine runs: counts what experts get, and moves their weights when a better placement is known."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from deepinfer.distributed.align_placement import align_placement
from deepinfer.distributed.arriving_counts import ArrivingCounts
from deepinfer.distributed.balance_layer import balance_layer
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.expert_mover import ExpertMover
from deepinfer.distributed.expert_placement import ExpertPlacement
from deepinfer.distributed.load_window import LoadWindow
from deepinfer.distributed.peak_to_mean import peak_to_mean
from deepinfer.distributed.place_table import PlaceTable
from deepinfer.distributed.plan_shuffle import plan_shuffle
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.logging import get_logger

logger = get_logger(__name__)


class ExpertBalancer:
    """Of the layers with equally many experts: the target model's, or the draft stages'. Every rank of the group calls
    `end_step` behind every step; all decide alike, and move weights between two steps. Requests notice nothing: a sum
    of experts has the same bits wherever they lie.

    Attributes:
        num_rearranged: how often a new placement was taken.
        num_moved: weights of experts that went from rank to rank.
    """

    def __init__(self, comm: RankComm, exchanges: Sequence[ExpertExchange], interval: int, num_steps: int) -> None:
        """Args:
        comm: the ranks.
        exchanges: of the layers.
        interval: steps from one rearrangement to the next; the first comes after a quarter of them.
        num_steps: the last steps that a placement is made from.
        """
        self._comm = comm
        self._exchanges = exchanges
        self._interval = interval
        self._window = LoadWindow(num_steps, len(exchanges), exchanges[0].num_experts)
        self._arriving: deque[ArrivingCounts] = deque()  # of the last steps, the oldest first
        self._placement = ExpertPlacement.of_physical(
            np.concatenate([exchange.placement.physical_to_logical for exchange in exchanges]),
            exchanges[0].num_experts,
            comm.size,
        )
        self._steps_left = max(1, interval // 4)
        self.num_rearranged = 0
        self.num_moved = 0

    def end_step(self) -> None:
        """Behind every step, also one without rows here."""
        self._arriving.append(PlaceTable.take_counts([exchange.table for exchange in self._exchanges]))
        self._steps_left -= 1
        while len(self._arriving) > min(self._steps_left, 1):  # the device may still be at this step
            self._window.add(self._arriving.popleft().take())
        if self._steps_left == 0:
            self._steps_left = self._interval
            self._rearrange()

    def _rearrange(self) -> None:
        started = time.perf_counter()
        loads = self._comm.sum_numbers(self._window.loads())
        if not loads.any():
            return
        before, placement = self._placement, align_placement(self._placement, self._balanced(loads))
        num_moved = self.move(placement)
        self.num_rearranged += 1
        if self._comm.rank == 0:
            logger.info(
                "experts rearranged in %.0f ms: fullest rank %.3f -> %.3f of the mean over %d steps and %d layers; %d "
                "expert weights went to other ranks",
                (time.perf_counter() - started) * 1e3,
                peak_to_mean(loads, before).mean(),
                peak_to_mean(loads, placement).mean(),
                *loads.shape[:2],
                num_moved,
            )

    def move(self, placement: ExpertPlacement) -> int:
        """Take another placement of the same experts and places; how many weights went from rank to rank."""
        shuffles = plan_shuffle(self._placement, placement)
        mover = ExpertMover(self._comm, placement.slots_per_rank)
        for layer, (exchange, shuffle) in enumerate(zip(self._exchanges, shuffles, strict=True)):
            mover.run(shuffle, exchange.weights)
            row = placement.physical_to_logical[layer : layer + 1]
            exchange.place_by(ExpertPlacement.of_physical(row, placement.num_logical, placement.num_ranks))
        self._placement = placement
        num_moved = sum(len(shuffle.transfers) for shuffle in shuffles)
        self.num_moved += num_moved
        return num_moved

    def _balanced(self, loads: np.ndarray) -> ExpertPlacement:
        """`balance_experts`, of which every rank does some layers."""
        num_places, own = self._placement.num_physical, range(self._comm.rank, loads.shape[1], self._comm.size)
        placed = np.zeros((loads.shape[1], num_places), dtype=np.int64)
        for layer in own:
            placed[layer] = balance_layer(loads[:, layer], num_places, self._comm.size)
        return ExpertPlacement.of_physical(self._comm.sum_numbers(placed), loads.shape[2], self._comm.size)
