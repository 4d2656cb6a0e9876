"""One process at work on a job, from its first range to the merged results."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from deepinfer.batch.batch_job import BatchJob
from deepinfer.batch.batch_worker import BatchWorker
from deepinfer.batch.engine_fields import require_same_fields
from deepinfer.batch.job_budget import JobBudget
from deepinfer.batch.job_outcome import JobOutcome
from deepinfer.batch.job_report import JobReport
from deepinfer.batch.merge import merge_parts
from deepinfer.batch.merged_results import MergedResults
from deepinfer.batch.prometheus_file import write_prometheus
from deepinfer.batch.range_claims import RangeClaims
from deepinfer.batch.result_writer import ResultWriter
from deepinfer.batch.row_engine import RowEngine
from deepinfer.batch.row_source import RowSource
from deepinfer.batch.row_tally import RowTally
from deepinfer.batch.session_totals import SessionTotals
from deepinfer.batch.speed_book import SpeedBook
from deepinfer.batch.stop_signal import StopSignal
from deepinfer.batch.timing_log import TimingLog
from deepinfer.batch.worker_end import WorkerEnd
from deepinfer.errors import JobWriteError
from deepinfer.logging import get_logger

_POLL_SECONDS: Final = 0.2
_WRITE_SECONDS: Final = 5.0

logger = get_logger(__name__)


class JobRun:
    """Works until the job is complete, or to an orderly end before.

    While other workers hold the last ranges it waits, and takes over what a killed one leaves.
    """

    def __init__(
        self,
        job: BatchJob,
        engine: RowEngine,
        *,
        budget: JobBudget,
        stop: StopSignal,
        grace_seconds: float = 10.0,
        on_step: Callable[[SessionTotals], None] = lambda totals: None,
        speeds: SpeedBook | None = None,
    ) -> None:
        """Args:
        job, engine: what is worked on, with what; the engine's options must be the job's.
        budget: limits of this run.
        stop: asks for an orderly end.
        grace_seconds: how long rows in flight may go on then.
        on_step: called behind every step of the engine, and while it waits for other workers.
        speeds: where this run's speed is noted for later plans; None: nowhere.

        Raises JobError for an engine with other options.
        """
        require_same_fields(engine.config, job.manifest.engine)
        self._job = job
        self._engine = engine
        self._budget = budget
        self._stop = stop
        self._grace_seconds = grace_seconds
        self._on_step = on_step
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns():x}"
        self.totals = SessionTotals(self.worker, job.manifest.engine["max_model_len"])
        self._speeds = speeds
        self._tally = RowTally(job.directory, job.manifest)
        self._written = time.monotonic()

    def run(self) -> JobOutcome:
        """Raises JobError and JobWriteError; the job stays valid, and can be resumed once their cause is gone."""
        job, waits = self._job, False
        claims = RangeClaims(job.directory, job.manifest.num_ranges, self.worker)
        reader = job.reader()
        try:
            while True:
                worker = self._worker(RowSource(job.manifest, job.directory, claims, reader, job.preparer()))
                if worker.run() is not WorkerEnd.NOTHING_LEFT:
                    return JobOutcome(None, worker.reason)
                if claims.are_all_done():
                    results = self._merge(claims)
                    if results is not None:
                        return JobOutcome(results)
                    continue
                if not waits:
                    logger.info("the other ranges are being worked on: waiting for their workers")
                    waits = True
                time.sleep(_POLL_SECONDS)
                self._step()
                if self._stop.is_requested:
                    return JobOutcome(None, "asked to stop")
        finally:
            reader.close()
            self._write_totals()
            if self._speeds is not None:
                self._speeds.note(job.manifest, self.totals)

    def _worker(self, source: RowSource) -> BatchWorker:
        job = self._job
        return BatchWorker(
            self._engine,
            source,
            ResultWriter(job.manifest, job.model.tokenizer),
            self.totals,
            TimingLog(job.directory.timings / f"{self.worker}.jsonl"),
            budget=self._budget,
            stop=self._stop,
            grace_seconds=self._grace_seconds,
            on_step=self._step,
        )

    def _step(self) -> None:
        if time.monotonic() - self._written >= _WRITE_SECONDS:
            self._write_totals()
        self._on_step(self.totals)

    def _write_totals(self) -> None:
        """Leave this run's figures behind; where they cannot be written, that is no reason to stop."""
        self._written = time.monotonic()
        directory, manifest = self._job.directory, self._job.manifest
        with suppress(JobWriteError):
            self.totals.write(directory.timings / f"{self.worker}.json")
            report = JobReport.read(directory, manifest)
            write_prometheus(directory.root / "metrics.prom", directory.root.name, report, self._tally.count())

    def _merge(self, claims: RangeClaims) -> MergedResults | None:
        """The merged results; None when a part was damaged, whose range is then to be done again."""
        job = self._job
        self._write_totals()  # before the results: once they are there, nobody comes to write a report
        JobReport.read(job.directory, job.manifest).write(job.directory)
        damaged = merge_parts(job.directory, job.manifest, self.worker)
        for number in damaged:
            logger.warning("part %d was damaged: its lost rows are computed again", number)
            claims.forget(number)
        if damaged:
            return None
        return MergedResults.read(job.directory)
