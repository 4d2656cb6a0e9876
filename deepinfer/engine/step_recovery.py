"""Gives up steps that an exception broke off: the worker's, or a signal handler's at any line."""

from __future__ import annotations

from deepinfer._C import Scheduler, StepPlan
from deepinfer.engine.output_processor import OutputProcessor
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.errors import RequestError


class StepRecovery:
    """Every sequence either computes again what the scheduler has not booked, or ends with an error."""

    def __init__(self, scheduler: Scheduler, outputs: OutputProcessor) -> None:
        self._scheduler = scheduler
        self._outputs = outputs

    def give_up(self, plan: StepPlan, ready: StepOutputs) -> None:
        """Give up the newest step in flight, or one that was booked but perhaps not emitted as a whole.

        Sequences that cannot go on end with an error, which goes to `ready`.
        """
        lost, reason = self._lost_sequences(plan)
        for seq_id in lost:
            self._scheduler.abort(seq_id)
        self._outputs.give_up(lost, RequestError(reason, code="step_interrupted"), ready)

    def _lost_sequences(self, plan: StepPlan) -> tuple[set[int], str]:
        """Sequences that cannot go on behind a broken step, and why.

        A later chunk of a prefill cannot be computed again, as its rings may be overwritten already; what the scheduler
        does not know any more had an error of its own that was not told. Where tokens are booked, but perhaps not all
        emitted, the text would go on with a gap.
        """
        members = {*plan.seq_ids.tolist(), *plan.fork_seq_ids.tolist()}
        try:
            self._scheduler.discard(plan.step_id)
        except ValueError:  # it was booked
            return members, "the step that made this output was interrupted"
        is_later = plan.context_lens > plan.window_starts
        chunks = set(plan.seq_ids[is_later].tolist()) if plan.kind == "prefill" else set()
        gone = {seq_id for seq_id in members if not self._is_scheduled(seq_id)}
        return chunks | gone, "the step that computed this prompt was interrupted"

    def _is_scheduled(self, seq_id: int) -> bool:
        try:
            self._scheduler.token_ids(seq_id)
        except ValueError:
            return False
        return True
