"""The engine of a rank in lock step whose host works on one step while its device computes the next."""

from __future__ import annotations

from deepinfer._C import StepPlan
from deepinfer.engine.lockstep_engine import LockstepEngine
from deepinfer.engine.overlapped_engine import OverlappedEngine


class OverlappedLockstepEngine(OverlappedEngine, LockstepEngine):
    """Steps are agreed on as by `LockstepEngine` and run as by `OverlappedEngine`: votes are about plans, and the plan
    of step N exists while N-1 runs.

    A step's collectives are those of its two phases, and every rank launches both, in this order, before it votes on
    the next step, whatever became of its sequences meanwhile: who has only ghosts left skips sampling and takes part in
    the others' draft pass. Between the phases a rank waits for N-1, of which all have launched both phases. So nobody
    waits for what another rank would launch later only, and ranks need not know of each other's ghosts.
    """

    def _take_part(self, plan: StepPlan) -> None:
        """The same phases around the books of the step before, which may be in flight here."""
        with self._executes():
            self._worker.take_part()
        if self._steps:
            self._book()
            self._end_step(plan)
        self._skip_sample()

    def _skip_sample(self) -> None:
        """Other ranks may have more than ghosts."""
        with self._executes():
            self._worker.skip_sample()
