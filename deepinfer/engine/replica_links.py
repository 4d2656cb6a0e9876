"""The workers that take requests, by replica, and the questions that are open with them."""

from __future__ import annotations

from collections import deque
from typing import Any

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.packed_request import PackedRequest
from deepinfer.engine.worker_command import WorkerCommand
from deepinfer.engine.worker_pool import WorkerPool
from deepinfer.engine.worker_process import WorkerProcess
from deepinfer.logging import get_logger

logger = get_logger(__name__)


class ReplicaLinks:
    """Sends to replica r's first rank. Nothing raises for a worker that is gone: the pool tells that.

    Args:
        pool: all workers.
        ranks: the rank that takes the requests of each replica.
        wakes_all: whether every rank has to know when one of them gets a request, since their steps meet.
    """

    def __init__(self, pool: WorkerPool, ranks: list[int], wakes_all: bool) -> None:
        self.pool = pool
        self._wakes_all = wakes_all
        self._num_given = 0
        self._workers = [pool.workers[rank] for rank in ranks]
        self._questions: list[deque[list[Any]]] = [deque() for _ in pool.workers]

    @property
    def num_replicas(self) -> int:
        """Replicas."""
        return len(self._workers)

    def packed_request(self, request: EngineRequest) -> PackedRequest:
        """RequestError for a request with objects that cannot go to another process."""
        return PackedRequest.of(request, self._workers[0].wire)

    def packed(self, command: WorkerCommand) -> bytes:
        """A command's bytes."""
        return self._workers[0].wire.pack(command)

    def give(self, replica: int, message: bytes) -> None:
        """Send a packed request, and wake whoever has a part in its steps."""
        self.send_packed(replica, message)
        self._num_given += 1
        if self._wakes_all:
            for worker in self.pool.workers:
                self._send_to(worker, worker.wire.pack(WorkerCommand("wake", self._num_given)))

    def send_packed(self, replica: int, message: bytes) -> None:
        """Send a packed command."""
        self._send_to(self._workers[replica], message)

    def send(self, replica: int, command: WorkerCommand) -> None:
        """Pack and send."""
        self.send_packed(replica, self._workers[replica].wire.pack(command))

    def ask(self, replica: int, question: WorkerCommand) -> list[Any]:
        """Send a question; the answer will stand in the list, which is empty till then."""
        return self.ask_rank(self._workers[replica].rank, question)

    def ask_rank(self, rank: int, question: WorkerCommand) -> list[Any]:
        """The same to a rank, which need not be one that takes requests."""
        answer: list[Any] = []
        self._questions[rank].append(answer)
        worker = self.pool.workers[rank]
        self._send_to(worker, worker.wire.pack(question))
        return answer

    def answer(self, rank: int, value: Any) -> None:
        """Fill in the answer of the oldest question to a worker."""
        self._questions[rank].popleft().append(value)

    @staticmethod
    def _send_to(worker: WorkerProcess, message: bytes) -> None:
        try:
            worker.wire.connection.send_bytes(message)
        except OSError:
            logger.debug("worker rank %d is gone", worker.rank)
