"""Drives the engine step after step and hands every output to the call it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager

from deepinfer.core.engine_request import EngineRequest
from deepinfer.engine.deferred_interrupt import DeferredInterrupt
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.mailbox import Mailbox
from deepinfer.engine.prefix_handle import PrefixHandle
from deepinfer.engine.step_outputs import StepOutputs
from deepinfer.errors import DeepInferError, RequestError
from deepinfer.outputs import RequestOutput


class SyncLoop:
    """Several calls may be open at once (streams, threads): whoever waits drives the engine for all.

    Steps and additions hold one lock; Ctrl-C is deferred while it is held.
    """

    def __init__(self, engine: LLMEngine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._stepping = False
        self._mailboxes: dict[str, Mailbox] = {}

    def add(self, request: EngineRequest, prompt: str | None, prompt_index: int, mailbox: Mailbox) -> None:
        """Queue a request whose outputs go to `mailbox`. Raises RequestError when it can never run."""
        with self._lock, DeferredInterrupt():
            if request.request_id in self._mailboxes:
                raise RequestError(f"request id {request.request_id!r} is in use", code="duplicate_request_id")
            self._mailboxes[request.request_id] = mailbox
            try:
                self._engine.add_request(request, prompt, prompt_index=prompt_index, streaming=mailbox.streaming)
            except BaseException:
                self._mailboxes.pop(request.request_id, None)
                raise

    def refuse(
        self, request_id: str, error: Exception, prompt: str | None, prompt_token_ids: list[int]
    ) -> RequestOutput:
        """The output of a request that cannot run."""
        with self._lock:
            return self._engine.refuse(request_id, error, prompt, prompt_token_ids)

    def grammar_error(self, request: EngineRequest) -> Exception | None:
        """What is wrong with the grammar of a request that was not added yet; waits until it is compiled."""
        return self._engine.grammar_error(request)

    def save_prefix(self, request_id: str) -> PrefixHandle:
        """Keep a request's cache blocks; waits for the step that may be running."""
        with self._lock, DeferredInterrupt():
            return self._engine.prefixes.save(request_id)

    def prefix_id_of(self, handle: PrefixHandle | None) -> int | None:
        """Number of a saved prefix of this engine. RequestError for any other handle."""
        return self._engine.prefixes.id_of(handle)

    def is_unfinished(self, request_id: str) -> bool:
        """Whether the id is in use."""
        return request_id in self._mailboxes

    def advance(self, mailbox: Mailbox) -> None:
        """Run one step, unless the mailbox got something meanwhile (another thread may have driven).

        Raises DeepInferError when nothing can come any more, so that no caller waits for ever.
        """
        with self._lock, DeferredInterrupt(lambda: self._engine.is_executing):
            if mailbox.has_mail:
                return
            self._stepping = True
            try:
                self._deliver(self._engine.step())
            finally:
                self._stepping = False
            if not mailbox.has_mail and not self._may_get_mail(mailbox):
                raise DeepInferError("this call waits for requests that the engine does not have: a fault of deepinfer")

    @contextmanager
    def between_steps(self) -> Generator[None, None, None]:
        """Inside, nothing runs: no thread's step, and the device is through with everything launched."""
        with self._lock, DeferredInterrupt():
            self._engine.drain()
            yield

    def abort(self, request_ids: Iterable[str]) -> None:
        """End requests early; from any thread, idempotent. Takes effect at once, or after the step that is running."""
        for request_id in request_ids:
            self._engine.abort_request(request_id)
        if self._lock.acquire(blocking=False):
            try:
                if not self._stepping:  # an abandoned stream may be collected in the middle of a step
                    self._deliver(self._engine.flush())
            finally:
                self._lock.release()

    def discard(self, request_ids: Iterable[str], mailbox: Mailbox) -> None:
        """End what is left of the call that owns `mailbox`, as nobody waits for it any more.

        Another call's request of the same id stays: this call's own was refused then.
        """
        left = [request_id for request_id in request_ids if self._mailboxes.get(request_id) is mailbox]
        for request_id in left:
            del self._mailboxes[request_id]
        if left:
            self.abort(left)

    def close(self) -> None:
        """Close the engine behind a step that may still run; what was unfinished is lost."""
        with self._lock:
            self._mailboxes.clear()
            self._engine.close()

    def _may_get_mail(self, mailbox: Mailbox) -> bool:
        return self._engine.has_unfinished_requests() and mailbox in self._mailboxes.values()

    def _deliver(self, outputs: StepOutputs) -> None:
        """Move outputs to the calls they belong to; what belongs to nobody any more is dropped.

        One by one, so that an exception from outside leaves the rest where it is for the next delivery.
        """
        nobody = Mailbox(streaming=True)
        while outputs.deltas:
            mailbox = self._mailboxes.get(outputs.deltas[0].request_id, nobody)
            mailbox.deltas.append(outputs.deltas.popleft())
        while outputs.finished:
            request_id = outputs.finished[0].request_id
            mailbox = self._mailboxes.get(request_id, nobody)
            mailbox.scores[request_id] = outputs.scores.pop(request_id, None) or mailbox.scores.get(request_id)
            mailbox.finished.append(outputs.finished.popleft())
            self._mailboxes.pop(request_id, None)
