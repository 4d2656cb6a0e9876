"""A loop with two steps in flight over a device that computes late: in order, but when it likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from deepinfer._C import StepPlan
from tests.core.fake_worker import Driver

_Outcome = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]
_SAME = ("seq_ids", "cu_seqlens_q", "context_lens", "token_ids", "positions", "lookback_ids", "num_drafts")


class LateDevice:
    """Runs work first in, first out: some of it now and then, and all that somebody waits for."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._queue: deque[Callable[[], None]] = deque()

    def launch(self, work: Callable[[], None]) -> None:
        self._queue.append(work)

    def have_time(self) -> None:
        for _ in range(self._random.randint(0, len(self._queue))):
            self._queue.popleft()()

    def drain(self) -> None:
        while self._queue:
            self._queue.popleft()()


@dataclass
class _Pending:
    plan: StepPlan  # exact
    outcome: _Outcome | None = None


@dataclass
class OverlappedDriver(Driver):
    """As `Driver`, but each decode step is planned and launched before the one in front of it is booked."""

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.device = LateDevice(Random(self.seed))
        self.pending: _Pending | None = None
        self.num_linked = self.num_ghosts = 0
        # What the device has: the step it computed last, and what came of it.
        self._exact: StepPlan | None = None
        self._outcome: _Outcome | None = None

    def step(self, between: Callable[[], None] = lambda: None) -> StepPlan:
        plan = self._schedule()
        if plan.num_seqs:
            self.device.launch(lambda: self._forward(plan))
        self.device.have_time()
        between()
        self.book_pending()
        self.device.have_time()
        if plan.num_seqs:
            self._launch_sample(self.scheduler.settled(plan.step_id))
            self.device.have_time()
            if plan.kind == "prefill":
                self.book_pending()
        return plan

    def run(self, max_steps: int = 1000) -> list[StepPlan]:
        while self.scheduler.has_unfinished():
            assert max_steps > 0, "the scheduler makes no progress"
            max_steps -= 1
            self.step()
        self.book_pending()
        assert self.scheduler.steps_in_flight == []
        return super().run()

    def book_pending(self) -> None:
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        self.device.drain()
        assert pending.outcome is not None
        self.book(pending.plan, *pending.outcome)
        # So what ended here holds nothing any more, one step later at most than it was computed.
        assert all(step_id <= pending.plan.step_id + 1 for step_id in self.scheduler.steps_in_flight)

    def fail(self, computed: bool, books_first: bool, both: bool) -> StepPlan:
        """Give the newest step up; the one before it is booked before that or afterwards.

        Or it is given up too, unless something was computed on top of it.
        """
        plan = self._schedule()
        if plan.num_seqs and computed:
            self.device.launch(lambda: self._forward(plan))
        self.device.drain()
        if books_first:
            self.book_pending()
        if plan.num_seqs:
            self.scheduler.discard(plan.step_id)
            self.scheduler.check()
        if both and not computed and self.pending is not None:
            self.scheduler.discard(self.pending.plan.step_id)
            self.pending = None
        self.book_pending()
        self.scheduler.check()
        return plan

    def _schedule(self) -> StepPlan:
        plan = self.scheduler.schedule()
        self.scheduler.check()
        is_linked = plan.previous_step_id >= 0
        assert not is_linked or (self.pending is not None and plan.previous_step_id == self.pending.plan.step_id)
        most = self.config.runtime_max_model_len if is_linked else self.config.max_model_len
        assert (plan.positions < most).all()
        assert plan.num_tokens <= self.config.max_num_batched_tokens
        self.num_linked += is_linked
        return plan

    def _launch_sample(self, settled: StepPlan) -> None:
        known = {seq_id for seq_id in settled.seq_ids.tolist() if self._is_known(seq_id)}
        pending = self.pending = _Pending(settled)
        self.num_ghosts += settled.num_seqs - len(known)

        def sample() -> None:
            pending.outcome = self._sample(settled, known)

        self.device.launch(sample)

    def _forward(self, plan: StepPlan) -> None:
        if plan.previous_step_id >= 0:
            assert self._exact is not None and self._outcome is not None
            most_rows = plan.num_tokens
            plan = plan.resolve(self._exact, *self._outcome)
            assert plan.num_tokens <= most_rows
            assert (plan.positions < np.repeat(plan.max_lens, np.diff(plan.cu_seqlens_q))).all()
        self._exact = plan
        self._texts = self.worker.forward(plan)

    def _sample(self, settled: StepPlan, known: set[int]) -> _Outcome:
        for name in _SAME:
            assert np.array_equal(getattr(settled, name), getattr(self._exact, name)), name
        tokens, cu_tokens = self.worker.sample(settled, self._texts, known)
        self._outcome = (tokens, cu_tokens, *self.worker.drafts(settled))
        return self._outcome

    def _is_known(self, seq_id: int) -> bool:
        try:
            self.scheduler.token_ids(seq_id)
        except ValueError:
            return False
        return True
