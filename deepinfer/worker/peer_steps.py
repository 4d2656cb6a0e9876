"""A rank's part in steps whose collectives other ranks meet in: who drafts, and what those do who have nothing."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.draft_executor import DraftExecutor
from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.logit_rows import LogitRows
from deepinfer.core.step_executor import StepExecutor
from deepinfer.core.step_plan import StepPlan
from deepinfer.distributed.expert_balancer import ExpertBalancer
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.cache_copies import copy_cache_units
from deepinfer.worker.draft_pass import DraftPass
from deepinfer.worker.sent_plan import SentPlan
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.static_executor import StaticExecutor


class PeerSteps:
    """Stands before the draft executor: a draft pass is one of all ranks. Every step ends with `end_step`, which sees
    to it that this rank has said whether it drafts, and takes part in the others' pass if it does not.

    Attributes:
        balancers: place experts anew from time to time; none unless that was asked for.

    The first rank of a replica schedules; the others get its plans, so that their caches hold the same.

    Where decode steps run from static tensors, all ranks run one of the agreed size, and the draft pass behind it too;
    who has nothing runs them over padding.

    Args:
        loaded: target model with its draft model, and its caches.
        groups: this rank's.
        target: runs the target model.
        drafts: runs the draft model; None with drafts off.
    """

    def __init__(
        self,
        loaded: tuple[DeepSeekV41Model, CacheTensors],
        groups: RankGroups,
        target: StepExecutor,
        drafts: DraftExecutor | None,
    ) -> None:
        self._model, self._caches = loaded
        self._comm, self._context, self._split = groups.lockstep, groups.context, groups.split
        self._target = target
        self._executor = drafts
        self._decoder: StaticDecoder | None = target.decoder if isinstance(target, StaticExecutor) else None
        self.balancers = _balancers(self._model, groups)
        self._has_drafted = False

    def lead(self, plan: StepPlan, wanted_rows: np.ndarray) -> None:
        """Tell the other ranks of the replica what this one, its first, is about to run."""
        if self._context is not None:
            self._context.broadcast(SentPlan.of(plan, wanted_rows))

    def take_part(self) -> None:
        """In a forward pass that this rank has planned no rows of: run its replica's plan, or no rows at all."""
        if self._decoder is not None and self._decoder.agreed is not None:
            self._decoder.take_part()
            return
        plan: SentPlan | None = None if self._context is None else self._context.broadcast(None)
        if plan is None:
            self._model.take_part(2 if self._split.is_on else 1)
            return
        copy_cache_units(self._caches, plan.slot_copies, plan.block_copies)
        self._target.forward(plan, plan.wanted_rows)

    def end_step(self) -> None:
        """Behind sampling, in every step."""
        if self._executor is not None and not self._has_drafted and self._somebody_drafts(False):
            self._draft_nothing()
        self._has_drafted = False
        for balancer in self.balancers:
            balancer.end_step()

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """See `DraftExecutor`."""
        self._has_drafted = self._somebody_drafts(True)
        num_padded = self._num_padded
        if num_padded is None:
            self._drafts.run(requests, num_drafts)
            return
        executor = cast(DraftPass, self._drafts)  # native code talks to no other ranks
        executor.run_padded(requests, num_drafts, num_padded)

    def note_drafts(self) -> None:
        """This rank's draft pass has been launched from static tensors."""
        self._has_drafted = True

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[LogitRows, np.ndarray]:
        """See `DraftExecutor`."""
        return self._drafts.adjust(row, previous_ids)

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """See `DraftExecutor`."""
        return self._drafts.draw(requests)

    @property
    def _drafts(self) -> DraftExecutor:
        assert self._executor is not None, "drafts are off"
        return self._executor

    @property
    def _num_padded(self) -> int | None:
        """Requests of a draft pass on every rank, behind a step from static tensors; None behind others."""
        demand = None if self._decoder is None else self._decoder.agreed
        if self._decoder is None or demand is None:
            return None
        return self._decoder.seqs_for(demand.num_seqs)

    def _draft_nothing(self) -> None:
        """This rank's part in the draft pass of others."""
        draft, decoder, num_padded = self._model.draft, self._decoder, self._num_padded
        assert draft is not None
        if decoder is None or num_padded is None:
            draft.take_part()
            return

        def draft_padding() -> None:
            nothing = torch.zeros(num_padded, dtype=torch.int64, device=self._model.embedding.device)
            anchors = DraftAnchors(nothing, nothing, nothing, nothing > 0)
            draft.forward(anchors, self._caches, decoder.sizes.num_drafts)

        decoder.calls.run(("draft padding", num_padded), draft_padding)

    def _somebody_drafts(self, own: bool) -> bool:
        demand = None if self._decoder is None else self._decoder.agreed
        if demand is not None:
            return bool(demand.makes_drafts)
        return bool(self._comm.gather_numbers([int(own)]).any())


def _balancers(model: DeepSeekV41Model, groups: RankGroups) -> list[ExpertBalancer]:
    """One for the layers of each number of experts."""
    comm, interval = groups.experts, groups.sizes.expert_rebalance_interval
    if comm is None or not interval:
        return []
    exchanges = [moe.exchange for moe in model.moes().values() if moe.exchange is not None]
    by_size: dict[int, list[ExpertExchange]] = {}
    for exchange in exchanges:
        by_size.setdefault(exchange.num_experts, []).append(exchange)
    steps = groups.sizes.expert_load_window
    return [ExpertBalancer(comm, layers, interval, steps) for layers in by_size.values()]
