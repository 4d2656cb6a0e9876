"""The engine of a rank whose steps meet those of other ranks in collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deepinfer._C import StepPlan
from deepinfer.core.decode_demand import DecodeDemand
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.step_agreement import StepAgreement, StepVote
from deepinfer.profile.host_trace import phase


class LockstepEngine(LLMEngine):
    """Gives the outputs of `LLMEngine`. Before a step all ranks agree on its kind; who has nothing of it runs a
    placeholder: the collectives of the step, without rows. All ranks call `step` equally often until all are idle.

    Attributes:
        wakes: how often the front end has woken this rank; set by its server.
    """

    wakes = 0

    def __init__(self, *parts: Any, groups: RankGroups) -> None:
        """`parts` as of `LLMEngine`."""
        super().__init__(*parts)
        sizes = groups.sizes
        self._comm, self._split, self._agreed = groups.lockstep, groups.split, groups.step
        self._agreement = StepAgreement(sizes.prefill_all_interval, sizes.prefill_any_interval)
        self._may_sleep = False
        self._is_anybody_ahead = False  # with a step in flight, when the ranks voted

    @property
    def is_idle(self) -> bool:
        """Whether all ranks have agreed that nobody has work, and this one was not woken since."""
        return self._may_sleep

    def wake(self, wakes: int) -> None:
        """There is work somewhere."""
        self.wakes = wakes
        self._may_sleep = False

    def _go_on(self) -> None:
        """One step of all ranks."""
        plan, is_shared = self._agreed_plan()
        if plan.num_seqs:
            self._run(self._steps[-1])
        elif is_shared:
            self._take_part(plan)
        else:
            self._rest(plan)

    def _take_part(self, _plan: StepPlan) -> None:
        """In a step of which this rank's plan is empty."""
        self._worker.take_part()
        self._worker.skip_sample()

    def _rest(self, plan: StepPlan) -> None:
        """Who has a step in flight books it and may then go on: nobody keeps it waiting for grammars of its own."""
        if not self._is_anybody_ahead:
            super()._rest(plan)

    def _agreed_plan(self) -> tuple[StepPlan, bool]:
        """This rank's part of the next step, empty if it has none, and whether anybody has one."""
        plan: StepPlan | None = None
        votes = [StepVote._make(row) for row in self._tell(self._vote())]
        self._may_sleep = self._agreement.may_sleep(votes)
        self._is_anybody_ahead = any(vote.num_in_flight for vote in votes)
        kind = self._agreement.decide(votes)
        while kind is not None:
            plan = self._schedule(kind)
            half = self._split.vote(np.diff(plan.cu_seqlens_q))
            told = self._tell([plan.num_seqs > 0, half, *DecodeDemand.of(plan, plan.make_drafts)])
            self._split.agree([half for _, half, *_ in told])
            confirmed = self._agreement.confirm(kind, sum(has_planned for has_planned, *_ in told))
            if confirmed == kind:
                largest = DecodeDemand.largest(demand for _, _, *demand in told)
                self._agreed.decode = largest if kind == "decode" else None
                return plan, True
            kind = confirmed
        return plan or self._schedule("decode"), False  # nobody can decode: that plan is empty

    def _vote(self) -> StepVote:
        return StepVote(*self._scheduler.vote(), self.has_unfinished_requests(), self.wakes, len(self._steps))

    @phase("vote")
    def _tell(self, numbers: Sequence[int]) -> list[list[int]]:
        """Everybody's numbers."""
        gathered: list[list[int]] = self._comm.gather_numbers([int(number) for number in numbers]).tolist()
        return gathered
