"""All worker processes of an engine: started together, listened to by one thread, ended together."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Final, cast

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from deepinfer.engine.worker_command import WorkerCommand
from deepinfer.engine.worker_failure import WorkerFailure
from deepinfer.engine.worker_process import WorkerProcess
from deepinfer.engine.worker_ready import WorkerReady
from deepinfer.engine.worker_report import WorkerReport
from deepinfer.errors import EngineClosedError
from deepinfer.logging import get_logger

logger = get_logger(__name__)

_SETTLE_SECONDS: Final = 1.0  # that others get to say what broke them, so that the first cause is told
_CLOSE_SECONDS: Final = 5.0

OnReport = Callable[[int, WorkerReport], None]
OnFailure = Callable[[WorkerFailure], None]


class WorkerPool:
    """Knows no requests: reports go to whoever listens.

    When a worker fails or its process is gone, all others are ended: at once, or where it may have failed since another
    one did, after a second in which that one can say so. The cause is told.
    """

    def __init__(self, workers: Sequence[WorkerProcess], store: TCPStore | None = None) -> None:
        """`store`: where ranks whose steps meet have found each other; it ends with them."""
        self.workers = tuple(workers)
        self._store = store
        self._process = os.getpid()
        self._this_process = os.getpid  # kept: an open generator may end after the modules of its interpreter
        self.ready: list[WorkerReady] = []
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def wait_until_ready(self) -> None:
        """Until every worker can take requests. Raises what a worker's start broke; all have ended then."""
        ready: dict[int, WorkerReady] = {}
        try:
            while len(ready) < len(self.workers):
                report_of, failure = self._receive()
                ready |= {rank: report.value for rank, report in report_of}
                if failure is not None:
                    raise failure.mistake or failure.error()
        except BaseException:
            self.kill()
            raise
        self.ready = [ready[worker.rank] for worker in self.workers]

    def listen(self, on_report: OnReport, on_failure: OnFailure) -> None:
        """Start the thread that calls these for what comes; `on_failure` at most once, behind the last report."""
        self._thread = threading.Thread(
            target=self._listen, args=(on_report, on_failure), name="deepinfer-reports", daemon=True
        )
        self._thread.start()

    @property
    def is_at_home(self) -> bool:
        """Whether this is the process that has started the workers, and no fork of it: what they say goes there."""
        return self._this_process() == self._process

    @property
    def is_listening(self) -> bool:
        """Whether the workers hear this process: neither a fork, nor were they ended or told to end."""
        return not self._closing.is_set() and self.is_at_home

    def require_home(self) -> None:
        """EngineClosedError in a fork, see `is_at_home`."""
        if not self.is_at_home:
            raise EngineClosedError(
                f"the workers of this LLM belong to process {self._process}, of which this one, {os.getpid()}, is a "
                "fork: build a new LLM here"
            )

    def close(self) -> None:
        """Let every worker end, or end it; idempotent."""
        self._closing.set()
        for worker in self.workers:
            try:
                worker.wire.send(WorkerCommand("close"))
            except OSError:  # it is gone already
                logger.debug("worker rank %d is gone", worker.rank)
        end = time.monotonic() + _CLOSE_SECONDS
        for worker in self.workers:
            worker.wait(max(0.0, end - time.monotonic()))
        for worker in self.workers:  # one that hangs: the thread reads its pipe until that ends
            worker.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End every worker now; idempotent. Does nothing in a fork."""
        if not self.is_at_home:
            return
        self._closing.set()
        for worker in self.workers:
            worker.kill()
        self._store = None  # nothing else holds it: its port is free

    def _listen(self, on_report: OnReport, on_failure: OnFailure) -> None:
        while not self._closing.is_set():
            try:
                reports, failure = self._receive()
            except (OSError, ValueError):  # the pipes were closed here
                return
            for rank, report in reports:
                try:
                    on_report(rank, report)
                except Exception as error:  # calls that wait for it must not wait for ever
                    failure = failure or WorkerFailure.of(rank, error)
            if failure is not None and not self._closing.is_set():
                self.kill()
                on_failure(failure)

    def _receive(self) -> tuple[list[tuple[int, WorkerReport]], WorkerFailure | None]:
        """What has come by now, at least one thing; and why the engine is at its end, if it is."""
        reports: list[tuple[int, WorkerReport]] = []
        failures: list[WorkerFailure] = []
        self._take_all(None, reports, failures)
        end = time.monotonic() + _SETTLE_SECONDS
        while failures and all(failure.is_consequence for failure in failures) and not self._closing.is_set():
            left = end - time.monotonic()
            if left <= 0 or len(failures) == len(self.workers):
                break
            self._take_all(left, reports, failures)
        failures.sort(key=lambda failure: failure.is_consequence)
        return reports, failures[0] if failures else None

    def _take_all(
        self, seconds: float | None, reports: list[tuple[int, WorkerReport]], failures: list[WorkerFailure]
    ) -> None:
        """One message of every worker that has news, out of those that have not failed; waits for the first one."""
        ended = {failure.rank for failure in failures}
        by_connection = {worker.wire.connection: worker for worker in self.workers if worker.rank not in ended}
        for connection in wait_for_any(list(by_connection), seconds):
            self._take(by_connection[cast(Connection, connection)], reports, failures)

    def _take(
        self, worker: WorkerProcess, reports: list[tuple[int, WorkerReport]], failures: list[WorkerFailure]
    ) -> None:
        """One message of a worker, or the end of its pipe."""
        try:
            report = worker.wire.receive()
        except (EOFError, OSError):
            if not self._closing.is_set():
                failures.append(WorkerFailure(worker.rank, worker.how_it_ended()))
            return
        except Exception as error:  # a report that cannot be read here
            failures.append(WorkerFailure.of(worker.rank, error))
            return
        if report.kind == "failed":
            failures.append(report.value)
        else:
            reports.append((worker.rank, report))
