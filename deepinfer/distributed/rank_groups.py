"""The groups that one rank is part of, joined once at the start of its process."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.distributed.agreed_step import AgreedStep
from deepinfer.distributed.batch_split import BatchSplit
from deepinfer.distributed.exchange_log import ExchangeLog
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.rank_comm import RankComm
from deepinfer.distributed.rank_layout import RankGroup, RankLayout
from deepinfer.distributed.row_shards import RowShards

_WAIT: Final = timedelta(hours=4)  # an idle engine waits inside no collective, a loading one does


@dataclass(frozen=True, slots=True)
class RankGroups:
    """Made by `join`.

    Attributes:
        sizes: of the groups.
        lockstep: the ranks that step together.
        context: those of this rank's replica, which share the rows of a prefill step; None for one rank.
        experts: those that share the routed experts; None where this rank has them all.
        engram: those that share the Engram tables; None where this rank reads whole ones.
        device: of this rank's steps.
        split: whether they compute the step at hand in two halves.
        log: notes, while somebody traces, what the halves do.
        step: what the ranks in lockstep have agreed on about the step at hand.
    """

    sizes: ParallelConfig
    lockstep: RankComm
    context: RankComm | None
    experts: RankComm | None
    engram: RankComm | None
    device: torch.device
    split: BatchSplit
    log: ExchangeLog
    step: AgreedStep = field(default_factory=AgreedStep)

    def expert_exchange(self, num_experts: int) -> ExpertExchange | None:
        """For one layer with so many routed experts; None where this rank has them all."""
        if self.experts is None:
            return None
        sizes = self.sizes
        balances = sizes.expert_rebalance_interval > 0
        return ExpertExchange(self.experts, num_experts, sizes.num_redundant_experts, self.device, balances)

    def row_shards(self, num_rows: int) -> RowShards | None:
        """For an Engram table with so many rows; None where this rank reads the whole table."""
        return None if self.engram is None else RowShards(self.engram, num_rows)

    @classmethod
    def join(cls, sizes: ParallelConfig, rank: int, device: torch.device) -> RankGroups:
        """Called by every rank of a world that `join_world` has been called in, with the same sizes and device."""
        layout = RankLayout(sizes)
        made: dict[RankGroup, dist.ProcessGroup] = {}

        def comm(kind: str) -> RankComm:
            """Every rank makes every group, in one order, as torch.distributed asks."""
            groups = sorted({getattr(layout, kind)(other) for other in layout.world})
            for group in groups:
                if group not in made:
                    made[group] = dist.new_group(list(group), timeout=_WAIT)
            own = getattr(layout, kind)(rank)
            return RankComm(own, rank, made[own])

        lockstep = comm("lockstep_group")
        context = comm("context_group") if sizes.context_parallel_size > 1 else None
        experts = comm("expert_group") if sizes.expert_parallel_size > 1 else None
        engram = comm("engram_group") if sizes.engram_parallel_size > 1 else None
        for own in (context, experts, engram):
            if own is not None:
                own.meet(device)
                own.open_board()
        lockstep.open_board()
        split = BatchSplit(
            sizes.two_batch_overlap, sizes.expert_parallel_size, device.type, sizes.context_parallel_size
        )
        return cls(sizes, lockstep, context, experts, engram, device, split, ExchangeLog(device))


def join_world(address: tuple[str, int], rank: int, num_ranks: int, device: torch.device) -> None:
    """Make this process rank `rank` of a world. The store at `address` is the front end's."""
    store = TCPStore(address[0], address[1], is_master=False)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=num_ranks, timeout=_WAIT)
