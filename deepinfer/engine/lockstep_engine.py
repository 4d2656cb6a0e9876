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
from deepinfer.engine.step_outputs import StepOutputs
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

    @property
    def is_idle(self) -> bool:
        """Whether all ranks have agreed that nobody has work, and this one was not woken since."""
        return self._may_sleep

    def wake(self, wakes: int) -> None:
        """There is work somewhere."""
        self.wakes = wakes
        self._may_sleep = False

    @phase("step")
    def step(self) -> StepOutputs:
        """One step of all ranks. See `LLMEngine.step`."""
        self._recover()
        self._apply_aborts()
        self._admit_structured()
        plan = self._agreed_plan()
        if plan is not None and plan.num_seqs:
            result = self._execute(self._steps[-1])
            update = self._update(plan, result)
            self._emit(plan, result, update)
            self._end_step(plan)
        elif plan is not None:
            self._worker.take_part()
        elif self.has_unfinished_requests() and not self._ready.finished:
            self._wait_for_grammars()
        return self._take_ready()

    def _agreed_plan(self) -> StepPlan | None:
        """This rank's part of the next step, empty if it has none; None when nobody has one."""
        votes = [StepVote._make(row) for row in self._tell(self._vote())]
        self._may_sleep = self._agreement.may_sleep(votes)
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
                return plan
            kind = confirmed
        return None

    def _vote(self) -> StepVote:
        return StepVote(*self._scheduler.vote(), self.has_unfinished_requests(), self.wakes)

    @phase("vote")
    def _tell(self, numbers: Sequence[int]) -> list[list[int]]:
        """Everybody's numbers."""
        gathered: list[list[int]] = self._comm.gather_numbers([int(number) for number in numbers]).tolist()
        return gathered
