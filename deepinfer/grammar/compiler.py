"""Compiles grammars off the main thread: a pool, its time limit and its cache."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, TypeAlias

from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.core.constraint import Constraint
from deepinfer.errors import RequestError
from deepinfer.grammar.compile_job import CompileJob
from deepinfer.grammar.compiled_grammar import CompiledGrammar
from deepinfer.grammar.grammar_cache import GrammarCache
from deepinfer.grammar.grammar_error import grammar_error
from deepinfer.logging import get_logger

logger = get_logger(__name__)

Compile: TypeAlias = Callable[[Constraint], CompiledGrammar]
_CLOSE_SECONDS: Final = 1.0  # waited for threads on close; only a running compilation takes longer
_MAX_STUCK: Final = 16  # threads given up at most; a thread inside native code cannot be stopped


class GrammarCompiler:
    """Threads start with the first job and are daemons, so neither idle nor stuck ones hold the process back.

    A job that outlives its time limit goes on in its thread, which a new one replaces. Equal grammars are compiled
    once, also while the first is still being compiled.

    Args:
        config: limits.
        pieces: bytes of every token, empty for special ones.
        eos_token_ids: every id that ends a sequence.
        compile_function: replaces the library, for tests.
    """

    def __init__(
        self,
        config: GrammarConfig,
        pieces: Sequence[bytes],
        eos_token_ids: Sequence[int],
        compile_function: Compile | None = None,
    ) -> None:
        self._config = config
        self._pieces = pieces
        self._eos_token_ids = tuple(eos_token_ids)
        self._compile = compile_function
        self._cache = GrammarCache(None if config.grammar_disable_cache else config.grammar_cache_bytes)
        if not config.grammar_disable_cache and config.grammar_cache_bytes <= 0:
            logger.warning("grammar_cache_bytes <= 0: compiled grammars are kept without limit, a way to use up memory")
        self._jobs: queue.SimpleQueue[CompileJob | None] = queue.SimpleQueue()
        self._running: dict[tuple[str, str, int], CompileJob] = {}
        self._lock = threading.Lock()
        self._library_lock = threading.Lock()
        self._num_threads = self._num_stuck = 0  # threads in service; threads given up
        self._num_open = 0  # jobs queued or running, but for those of threads given up
        self._threads: list[threading.Thread] = []
        self._closed = False

    @property
    def num_ids(self) -> int:
        """Ids that the tokenizer has."""
        return len(self._pieces)

    def submit(self, constraint: Constraint) -> Future[CompiledGrammar]:
        """The compiled grammar, later. Fails with RequestError: grammar_error, or grammar_timeout through `expire`."""
        future: Future[CompiledGrammar] = Future()
        with self._lock:
            if self._closed:
                raise grammar_error("the grammar compiler is closed")
            cached = self._cache.get(constraint.key)
            if cached is not None:
                future.set_result(cached)
                return future
            job = self._running.get(constraint.key)
            if job is None:
                job = self._running[constraint.key] = CompileJob(constraint)
                self._num_open += 1
                self._jobs.put(job)
                if self._num_threads < min(self._num_open, self._config.grammar_threads):
                    self._start_thread()
            job.waiting.append(future)
        return future

    @property
    def timeout(self) -> float:
        """Seconds a request waits at most."""
        return self._config.grammar_timeout

    def expire(self, constraint: Constraint, future: Future[CompiledGrammar]) -> RequestError:
        """Give up on a submitted grammar; returns the request's error."""
        with self._lock:
            job = self._running.get(constraint.key)
            if job is not None and future in job.waiting:
                job.waiting.remove(future)
                if job.started and not (job.is_stuck or self._closed) and self._num_stuck < _MAX_STUCK:
                    job.is_stuck = True
                    self._num_stuck += 1
                    self._num_open -= 1
                    self._num_threads -= 1
                    self._start_thread()
        message = f"{constraint.kind}: the grammar was not compiled within {self.timeout:g} s; simplify it"
        return RequestError(message + " or raise grammar_timeout", code="grammar_timeout")

    def withdraw(self, constraint: Constraint, future: Future[CompiledGrammar]) -> None:
        """Stop waiting for a submitted grammar; a job that nobody waits for any more is not started."""
        with self._lock:
            job = self._running.get(constraint.key)
            if job is not None and future in job.waiting:
                job.waiting.remove(future)

    def close(self) -> None:
        """End the threads; idempotent. What still waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._num_threads):
                self._jobs.put(None)
            jobs = list(self._running.values())
            self._running.clear()
            self._cache.clear()
            self._compile = None
        for job in jobs:
            job.settle(grammar_error("the engine was closed"))
        deadline = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self) -> None:
        self._num_threads += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=self._work, name="deepinfer-grammar", daemon=True))
        self._threads[-1].start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                if not job.waiting:
                    self._running.pop(job.constraint.key, None)
                    self._num_open -= 1
                    continue
                job.started = True
            outcome = self._outcome(job.constraint)
            with self._lock:
                self._running.pop(job.constraint.key, None)
                if not isinstance(outcome, Exception) and not self._closed:
                    self._cache.put(job.constraint.key, outcome)
                self._num_open -= not job.is_stuck
                self._num_stuck -= job.is_stuck
            job.settle(outcome)
            if job.is_stuck:
                return

    def _outcome(self, constraint: Constraint) -> CompiledGrammar | Exception:
        started = time.perf_counter()
        try:
            result: CompiledGrammar | Exception = self._library()(constraint)
        except Exception as error:
            result = error if isinstance(error, RequestError) else grammar_error(f"{constraint.kind}: {error}")
        if self._config.grammar_debug:
            logger.info("grammar %s %.80r: %.3f s", constraint.kind, constraint.source, time.perf_counter() - started)
        return result

    def _library(self) -> Compile:
        """The library with the tokenizer's tables, made by the first thread that needs it."""
        with self._library_lock:
            if self._compile is None:
                from deepinfer.grammar.xgrammar_backend import XGrammarBackend

                self._compile = XGrammarBackend(self._pieces, self._eos_token_ids).compile
            return self._compile
