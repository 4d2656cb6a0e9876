"""A worker: rows to the engine, results to part files, until nothing is left or somebody says stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from deepinfer.batch.job_budget import JobBudget
from deepinfer.batch.open_range import OpenRange
from deepinfer.batch.part_record import PartRecord
from deepinfer.batch.result_writer import ResultWriter
from deepinfer.batch.row_answer import RowAnswer
from deepinfer.batch.row_engine import RowEngine, RowQueue
from deepinfer.batch.row_source import RowSource
from deepinfer.batch.row_to_do import RowToDo
from deepinfer.batch.session_totals import SessionTotals
from deepinfer.batch.stop_signal import StopSignal
from deepinfer.batch.timing_log import TimingLog
from deepinfer.batch.worker_end import WorkerEnd
from deepinfer.outputs import RequestFailure, RequestOutput

_SYNC_SECONDS: Final = 2.0
_FIGURES_SECONDS: Final = 1.0  # between two looks at the figures of engines in other processes


class BatchWorker:
    """Keeps the engine filled with a bounded number of rows and writes each result as soon as it is there.

    Attributes:
        reason: why it stopped before the end, in words; None when it did not.
    """

    def __init__(
        self,
        engine: RowEngine,
        source: RowSource,
        results: ResultWriter,
        totals: SessionTotals,
        timings: TimingLog,
        *,
        budget: JobBudget,
        stop: StopSignal,
        grace_seconds: float = 10.0,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Args:
        engine, source, results: where rows run, come from, and how results are written.
        totals, timings: counted up and filled.
        budget: limits of this run.
        stop: asks for the end.
        grace_seconds: how long rows in flight may go on once the end was asked for.
        on_step: called behind every step, and every row that fails without one.
        """
        self._engine = engine
        self._source = source
        self._results = results
        self._totals = totals
        self._timings = timings
        self._budget = budget
        self._stop = stop
        self._grace_seconds = grace_seconds
        self._on_step = on_step
        num_replicas = engine.config.parallel.data_parallel_size
        seqs = engine.config.scheduler.max_num_seqs * num_replicas
        self._max_in_flight = seqs + max(8, seqs // 4)
        self._figures_seconds = 0.0 if num_replicas == 1 else _FIGURES_SECONDS
        self._in_flight: dict[str, RowToDo] = {}
        self._synced = time.monotonic()
        self._step_seconds = self._counted = 0.0
        self.reason: str | None = None

    def run(self) -> WorkerEnd:
        """Work until no range can be had, or to an orderly end. Every result that came is on disk then.

        Raises JobError for what makes going on pointless, JobWriteError for a full disk; the job stays valid.
        """
        try:
            with self._engine.queue() as queue:
                return self._run(queue)
        finally:
            self._source.close()
            self._timings.close()

    def _run(self, queue: RowQueue) -> WorkerEnd:
        end, deadline, is_empty = WorkerEnd.NOTHING_LEFT, None, False
        while True:
            if deadline is None and self._must_stop():
                end = WorkerEnd.STOPPED if self._stop.is_requested else WorkerEnd.BUDGET
                deadline = time.monotonic() + self._grace_seconds
            if deadline is None and not is_empty:
                is_empty = self._fill(queue)
            self._source.settle()
            if deadline is None and not is_empty and not len(queue):
                continue  # filling ended for a reason that the next round finds
            is_over = deadline is not None and (self._stop.is_urgent or time.monotonic() >= deadline)
            if not len(queue) or is_over:
                self._sync(at_once=True)
                return end
            self._step(queue)
            self._sync()
            self._on_step()

    def _step(self, queue: RowQueue) -> None:
        began = time.monotonic()
        self._take(queue.poll())
        self._step_seconds += time.monotonic() - began
        if began - self._counted >= self._figures_seconds:
            self._totals.add_step(self._step_seconds, self._engine.stats())
            self._step_seconds, self._counted = 0.0, began

    def _must_stop(self) -> bool:
        if self._stop.is_requested:
            self.reason = "asked to stop"
            return True
        totals = self._totals
        self.reason = self._budget.used_up(totals.num_tokens, totals.seconds, totals.failures.total())
        return self.reason is not None

    def _fill(self, queue: RowQueue) -> bool:
        """Hand rows to the engine up to the bound; whether no range can be had any more."""
        while len(queue) < self._max_in_flight:
            row = self._source.next()
            if row is None:
                return True
            prepared = row.prepared
            if prepared.error is not None:
                failure = RequestFailure.from_exception(prepared.error)
                self._write([(row, RowAnswer.failed(prepared, failure), None)])
                self._source.settle()
                self._sync()
                self._on_step()
                if self._must_stop():
                    return False
                continue
            name = prepared.row.custom_id
            self._in_flight[name] = row
            queue.add({"prompt_token_ids": prepared.token_ids}, prepared.params, request_id=name)
        return False

    def _take(self, outputs: list[RequestOutput]) -> None:
        ended = []
        for output in outputs:
            row = self._in_flight.pop(output.request_id)
            ended.append((row, self._results.answer(row.prepared, output), output))
        if ended:
            self._write(ended)

    def _write(self, ended: Sequence[tuple[RowToDo, RowAnswer, RequestOutput | None]]) -> None:
        """Results first, then everything that is only about them."""
        by_range: dict[OpenRange, list[PartRecord]] = {}
        for row, answer, _ in ended:
            by_range.setdefault(row.home, []).append(self._results.record(answer))
        for home, records in by_range.items():
            home.record(records)
        for _, answer, output in ended:
            self._totals.add_row(answer, output)
            self._timings.add(answer, output)

    def _sync(self, *, at_once: bool = False) -> None:
        """Now and then, make what was written survive a power cut."""
        if at_once or time.monotonic() - self._synced >= _SYNC_SECONDS:
            for home in self._source.open_ranges:
                home.sync()
            self._timings.flush()
            self._synced = time.monotonic()
