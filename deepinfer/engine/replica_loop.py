"""Gives requests to the replicas in worker processes and hands every output to the call it belongs to."""

from __future__ import annotations

import heapq
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from deepinfer.core.engine_request import EngineRequest
from deepinfer.distributed.expected_length import ExpectedLength
from deepinfer.distributed.replica_balancer import ReplicaBalancer
from deepinfer.distributed.request_cost import RequestCost
from deepinfer.engine.deferred_interrupt import DeferredInterrupt
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.output_builder import OutputBuilder
from deepinfer.engine.placed_request import PlacedRequest
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.engine.replica_links import ReplicaLinks
from deepinfer.engine.worker_command import WorkerCommand
from deepinfer.engine.worker_failure import WorkerFailure
from deepinfer.engine.worker_report import WorkerReport
from deepinfer.errors import DeepInferError, EngineClosedError, RequestError, UnsupportedFeatureError
from deepinfer.outputs import RequestOutput

_EACH_ALONE = "each worker process has caches of its own, and a saved prefix lies in one of them"


class ReplicaLoop:
    """See `RequestLoop`. Requests wait here, most tokens first, until a replica has room (`ReplicaBalancer`); how they
    are spread changes no result, as nothing random depends on it.

    A thread of the pool delivers; calls wait. Whatever ends the workers ends all calls with the same error.
    """

    def __init__(self, links: ReplicaLinks, balancer: ReplicaBalancer, refusals: OutputBuilder) -> None:
        """Args:
        links: to the workers that take requests.
        balancer: of as many replicas.
        refusals: makes the outputs of requests that never run.
        """
        self._links = links
        self._balancer = balancer
        self._refusals = refusals
        self._lengths = ExpectedLength()
        self._changed = threading.Condition(threading.RLock())
        self._mailboxes: dict[str, Mailbox] = {}
        self._placed: dict[str, PlacedRequest] = {}
        self._waiting: list[tuple[int, int, PlacedRequest]] = []  # a heap: most tokens first, then as they came
        self._arrivals = itertools.count()
        self._failure: WorkerFailure | None = None
        self._closed = False
        this = weakref.ref(self)  # the listening thread must not keep it alive
        links.pool.listen(lambda *news: _called(this, "_take", *news), lambda *news: _called(this, "_fail", *news))
        weakref.finalize(self, links.pool.kill)

    def add(self, request: EngineRequest, prompt: str | None, prompt_index: int, mailbox: Mailbox) -> None:
        """Queue a request. Raises RequestError for one that cannot go to another process, EngineClosedError in a fork
        of the process that has built the engine.
        """
        self._links.pool.require_home()
        packed = self._links.packed_request(request)
        message = self._links.packed(WorkerCommand("add", None, packed, prompt, prompt_index, mailbox.streaming))
        with self._changed, DeferredInterrupt():  # a failure of workers is the whole call's: `advance` tells it
            if request.request_id in self._mailboxes:
                raise RequestError(f"request id {request.request_id!r} is in use", code="duplicate_request_id")
            num_new = self._lengths.of(request.max_tokens)
            cost = RequestCost.of_request(len(request.prompt_token_ids), num_new, len(request.choices))
            placed = PlacedRequest(request.request_id, message, cost)
            self._mailboxes[request.request_id] = mailbox
            self._placed[request.request_id] = placed
            heapq.heappush(self._waiting, (-cost.tokens, next(self._arrivals), placed))

    def refuse(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """See `RequestLoop`."""
        return self._refusals.refused(request_id, error, prompt, prompt_token_ids)

    def grammar_error(self, request: EngineRequest) -> Exception | None:
        """See `RequestLoop`; a worker compiles it. Also that the request cannot go to one."""
        try:
            packed = self._links.packed_request(request)
        except RequestError as refused:
            return refused
        if request.constraint is None:
            return None
        question = WorkerCommand("ask", "grammar", packed)
        error: Exception | None = self._answers(lambda: [self._links.ask(0, question)])[0]
        return error

    def save_prefix(self, request_id: str) -> PrefixHandle:
        """UnsupportedFeatureError."""
        raise UnsupportedFeatureError(
            f"save_prefix: {_EACH_ALONE}; build the LLM with data_parallel_size=1 and context_parallel_size=1"
        )

    def prefix_id_of(self, handle: PrefixHandle | None) -> int | None:
        """None for None; RequestError for a prefix of another engine."""
        if handle is not None:
            raise RequestError("the prefix of the prompt belongs to another LLM", code="prefix_not_found")
        return None

    def is_unfinished(self, request_id: str) -> bool:
        """Whether the id is in use."""
        return request_id in self._mailboxes

    def advance(self, mailbox: Mailbox) -> None:
        """Wait until the mailbox has something. Raises WorkerFailedError when a worker has failed."""
        with self._changed:
            with DeferredInterrupt():
                self._give_away()
            while not mailbox.has_mail:
                self._require_running()
                if mailbox not in self._mailboxes.values():
                    raise DeepInferError("this call waits for requests that nobody has: a fault of deepinfer")
                self._changed.wait()

    def abort(self, request_ids: Iterable[str]) -> None:
        """See `RequestLoop`. One that still waits here goes to a worker too, which gives the output of an abort."""
        if not self._links.pool.is_listening:
            return
        with self._changed, DeferredInterrupt():
            for request_id in request_ids:
                placed = self._placed.get(request_id)
                if placed is None:
                    continue
                if placed.replica is None:
                    placed.is_withdrawn = True
                    self._send_request(placed, 0)
                assert placed.replica is not None
                self._links.send(placed.replica, WorkerCommand("abort", [request_id]))

    def discard(self, request_ids: Iterable[str], mailbox: Mailbox) -> None:
        """See `RequestLoop`."""
        if not self._links.pool.is_at_home:
            return
        with self._changed:
            left = [request_id for request_id in request_ids if self._mailboxes.get(request_id) is mailbox]
            for request_id in left:
                del self._mailboxes[request_id]
                if self._placed[request_id].replica is None:
                    self._placed.pop(request_id).is_withdrawn = True
        if left:
            self.abort(left)

    def ask_all(self, question: str) -> list[Any]:
        """The answers of all replicas, in their order."""
        command = WorkerCommand("ask", question)
        return self._answers(lambda: [self._links.ask(r, command) for r in range(self._links.num_replicas)])

    def ask_ranks(self, question: str) -> list[Any]:
        """The answers of all ranks, in their order."""
        command = WorkerCommand("ask", question)
        return self._answers(lambda: [self._links.ask_rank(w.rank, command) for w in self._links.pool.workers])

    def close(self) -> None:
        """End the workers; what was unfinished is lost. Does nothing in a fork."""
        if not self._links.pool.is_at_home:
            return
        with self._changed:
            self._closed = True
            self._mailboxes.clear()
            self._waiting.clear()  # nothing is sent from here on but the end
            self._changed.notify_all()
        self._links.pool.close()

    def _answers(self, ask: Callable[[], list[list[Any]]]) -> list[Any]:
        """Wait until the lists that `ask` gives, one a question, have an answer each."""
        self._links.pool.require_home()
        with self._changed:
            self._require_running()
            with DeferredInterrupt():
                answers = ask()
            while any(not answer for answer in answers):
                self._require_running()
                self._changed.wait()
        return [answer[0] for answer in answers]

    def _give_away(self) -> None:
        """Send waiting requests to replicas that have room."""
        while self._waiting and self._failure is None:
            placed = self._waiting[0][2]
            if not placed.is_withdrawn:
                replica = self._balancer.assign(placed.cost)
                if replica is None:
                    return
                placed.is_booked = True
                self._send_request(placed, replica)
            heapq.heappop(self._waiting)

    def _send_request(self, placed: PlacedRequest, replica: int) -> None:
        placed.replica = replica
        self._links.give(replica, placed.message)
        placed.message = b""

    def _take(self, rank: int, report: WorkerReport) -> None:
        """Deliver what a worker has sent; on the pool's thread."""
        with self._changed:
            if report.kind == "answer":
                self._links.answer(rank, report.value)
            for delta in report.deltas:
                mailbox = self._mailboxes.get(delta.request_id)
                if mailbox is not None:
                    mailbox.deltas.append(delta)
            for output in report.finished:
                self._finish(output, report)
            self._give_away()
            self._changed.notify_all()

    def _finish(self, output: RequestOutput, report: WorkerReport) -> None:
        request_id = output.request_id
        placed = self._placed.pop(request_id, None)
        if placed is not None and placed.is_booked and placed.replica is not None:
            self._balancer.finish(placed.replica, placed.cost)
            for completion in output.outputs:
                if completion.finish_reason in ("stop", "length"):
                    self._lengths.observe(len(completion.token_ids))
        mailbox = self._mailboxes.pop(request_id, None)
        if mailbox is not None:
            mailbox.scores[request_id] = report.scores.get(request_id)
            mailbox.finished.append(output)

    def _fail(self, failure: WorkerFailure) -> None:
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _require_running(self) -> None:
        if self._failure is not None:
            raise self._failure.error()
        if self._closed:
            raise EngineClosedError("this engine is closed; build a new LLM")


def _called(loop: weakref.ref[ReplicaLoop], method: str, *news: Any) -> None:
    """Call a method of a loop that may be gone."""
    alive = loop()
    if alive is not None:
        getattr(alive, method)(*news)
