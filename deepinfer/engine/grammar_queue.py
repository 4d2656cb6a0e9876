"""Structured requests whose grammar is still being compiled: they are not in the scheduler yet and hold nobody up."""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace

from deepinfer.core.constraint import Constraint
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.grammar_matcher import GrammarMatcher
from deepinfer.errors import DeepInferError, UnsupportedFeatureError
from deepinfer.grammar.compiled_grammar import CompiledGrammar
from deepinfer.grammar.compiler import GrammarCompiler


@dataclass(frozen=True, slots=True)
class _Pending:
    """A waiting request; `deadline` is in seconds of the monotonic clock."""

    request: EngineRequest
    constraint: Constraint
    future: Future[CompiledGrammar]
    deadline: float


class GrammarQueue:
    """Between the callers and the scheduler. Used by one thread at a time, but for `error_of`.

    Args:
        compiler: compiles off the main thread; None: structured requests are refused.
    """

    def __init__(self, compiler: GrammarCompiler | None = None) -> None:
        self._compiler = compiler
        self._pending: dict[int, _Pending] = {}

    @property
    def num_pending(self) -> int:
        """Requests that wait for their grammar."""
        return len(self._pending)

    def submit(self, request: EngineRequest) -> None:
        """Start compiling a request's grammar; its forks come with it."""
        constraint = request.constraint
        assert constraint is not None, "only structured requests wait here"
        compiler = self._require()
        future = compiler.submit(constraint)
        self._pending[request.seq_id] = _Pending(request, constraint, future, time.monotonic() + compiler.timeout)

    def withdraw(self, seq_id: int) -> None:
        """Forget a waiting request; unknown ones are ignored."""
        item = self._pending.pop(seq_id, None)
        if item is not None:
            self._require().withdraw(item.constraint, item.future)

    def take_ready(self) -> list[tuple[EngineRequest, Exception | None]]:
        """Requests that may start, with their matchers' source, or that failed, with their error; in arrival order."""
        ready: list[tuple[EngineRequest, Exception | None]] = []
        now = time.monotonic()
        for seq_id, item in list(self._pending.items()):
            if not item.future.done() and now < item.deadline:
                continue
            del self._pending[seq_id]
            error = self._failure(item)
            ready.append((item.request if error else _with_matchers(item), error))
        return ready

    def wait(self, seconds: float) -> None:
        """Sleep until a grammar is compiled, a deadline has passed or the time is over."""
        if self._pending:
            first = min(item.deadline for item in self._pending.values()) - time.monotonic()
            futures = [item.future for item in self._pending.values()]
            wait(futures, timeout=max(0.0, min(seconds, first)), return_when=FIRST_COMPLETED)

    def error_of(self, constraint: Constraint) -> Exception | None:
        """Compile now and wait for it: what a request with this constraint would fail with."""
        compiler = self._require()
        future = compiler.submit(constraint)
        try:
            return future.exception(timeout=compiler.timeout)  # type: ignore[return-value]
        except FutureTimeoutError:
            return compiler.expire(constraint, future)

    def close(self) -> None:
        """End the compile threads; idempotent."""
        self._pending.clear()
        if self._compiler is not None:
            self._compiler.close()

    def _failure(self, item: _Pending) -> Exception | None:
        if not item.future.done():
            return self._require().expire(item.constraint, item.future)
        error = item.future.exception()
        return error if isinstance(error, (DeepInferError, type(None))) else DeepInferError(str(error))

    def _require(self) -> GrammarCompiler:
        if self._compiler is None:
            raise UnsupportedFeatureError("this engine was built without a grammar compiler")
        return self._compiler


def _with_matchers(item: _Pending) -> EngineRequest:
    """The request with the source of its matchers: one compiled grammar, a matcher for each choice."""
    grammar, constraint = item.future.result(), item.constraint

    def new_matcher() -> GrammarMatcher:
        return grammar.new_matcher(constraint)

    forks = tuple(replace(fork, new_matcher=new_matcher) for fork in item.request.forks)
    return replace(item.request, new_matcher=new_matcher, forks=forks)
