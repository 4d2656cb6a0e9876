"""A thread as the device: work runs beside the caller, in the order in which it was launched."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from deepinfer.core.device_stream import Launched
from deepinfer.errors import DeepInferError, EngineClosedError
from deepinfer.worker.finished_work import FinishedWork

T = TypeVar("T")

_PATIENCE: Final = 1.0  # seconds between looks whether the thread is still there


class ThreadStream:
    """See `DeviceStream`. Overlaps with the caller as far as work leaves the interpreter, as native code does.

    The thread begins with the first launch. It does not hold up the end of the process, and ends with this object. A
    forked child has none of its parent's threads: there a new one begins, and what was in flight is lost.
    """

    def __init__(self) -> None:
        self._queue: _Queue = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._end: Callable[[], Any] = _nothing
        self._newest: _Job[Any] | None = None
        self._closed = False
        self._process = 0

    def launch(self, work: Callable[[], T]) -> Launched[T]:
        """Hand `work` to the thread."""
        if self._closed:
            raise EngineClosedError("this stream is closed; build a new engine")
        thread = self._thread
        if thread is None or not thread.is_alive():
            if self._process == os.getpid() and thread is not None:  # the process is ending
                return FinishedWork(work)
            thread = self._start()
        job = _Job(work, thread)
        self._queue.put(job)
        self._newest = job
        return job

    def call(self, work: Callable[[], T]) -> Launched[T]:
        """Wait until the thread is idle, then run `work` here."""
        if self._newest is not None:
            self._newest.await_end()
        return FinishedWork(work)

    def drain(self) -> None:
        """Wait until the thread is idle, also behind a launch that an exception broke off.

        On the thread itself, where the collection of a forgotten object may call this, nothing can be waited for.
        """
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            self.launch(_nothing)
            self.call(_nothing)

    def close(self) -> None:
        """Drain and end the thread; idempotent."""
        self._closed = True
        self._end()

    def _start(self) -> threading.Thread:
        queue: _Queue = SimpleQueue()
        self._queue = queue
        thread = self._thread = threading.Thread(target=_serve, args=(queue,), name="deepinfer-device", daemon=True)
        # Also at the end of the process, while threads still run: native code must not come back to an interpreter
        # that has gone.
        self._end = weakref.finalize(self, _end_thread, queue, thread)
        self._process = os.getpid()
        thread.start()
        return thread


class _Job(Generic[T]):
    """See `Launched`. It has ended once it has a span; the lock, open from then on, is there to sleep on."""

    __slots__ = ("_error", "_lock", "_span", "_thread", "_value", "_work")

    def __init__(self, work: Callable[[], T], thread: threading.Thread) -> None:
        self._work: Callable[[], T] | None = work
        self._thread = thread
        self._value: T
        self._error: BaseException | None = None
        self._span: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    @property
    def done(self) -> bool:
        return self._span is not None

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def lost(self) -> bool:
        return not self._thread.is_alive() and self._span is None

    @property
    def span(self) -> tuple[int, int]:
        assert self._span is not None, "it has not ended"
        return self._span

    def wait(self) -> T:
        self.await_end()
        if self._error is not None:
            raise self._error
        if self._span is None:
            raise DeepInferError("this step was lost: its thread belongs to the process that this one was forked from")
        return self._value

    def await_end(self) -> None:
        """Wait until it has ended, or never will."""
        while not (self.done or self.lost):
            if self._lock.acquire(timeout=_PATIENCE):
                self._lock.release()

    def run(self) -> None:
        """Do the work; by the thread."""
        work, self._work = self._work, None  # what it holds goes when it has run
        assert work is not None, "a job runs once"
        begin = time.perf_counter_ns()
        try:
            self._value = work()
        except BaseException as error:
            self._error = error
        self._span = begin, time.perf_counter_ns()
        self._lock.release()


_Queue = SimpleQueue["_Job[Any] | None"]


def _serve(queue: _Queue) -> None:
    """The thread: runs what the queue holds until None comes. Knows the queue alone, so that it keeps no stream."""
    while (job := queue.get()) is not None:
        job.run()
        del job  # or the last one would live until the next


def _end_thread(queue: _Queue, thread: threading.Thread) -> None:
    queue.put(None)
    if thread.is_alive() and thread is not threading.current_thread():  # a stream may be collected on its own thread
        thread.join()


def _nothing() -> None:
    pass
