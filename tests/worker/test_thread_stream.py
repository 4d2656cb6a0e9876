"""The thread as a device: order, overlap, errors, draining, and what becomes of a stream that is forgotten."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from deepinfer.errors import DeepInferError, EngineClosedError
from deepinfer.worker.thread_stream import ThreadStream

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stream():
    stream = ThreadStream()
    yield stream
    stream.close()


def test_work_runs_in_order_on_one_other_thread(stream: ThreadStream) -> None:
    seen: list[tuple[int, int]] = []
    rng = random.Random(1)

    def work(number: int) -> int:
        time.sleep(rng.random() * 1e-3)
        seen.append((number, threading.get_ident()))
        return number

    launched = [stream.launch(lambda n=n: work(n)) for n in range(30)]
    assert [item.wait() for item in reversed(launched)] == list(reversed(range(30)))
    assert [number for number, _ in seen] == list(range(30))
    (thread,) = {thread for _, thread in seen}
    assert thread != threading.get_ident()


def test_the_caller_goes_on_meanwhile(stream: ThreadStream) -> None:
    may_end = threading.Event()
    launched = stream.launch(lambda: may_end.wait(5))
    assert not launched.done
    may_end.set()
    assert launched.wait() is True and launched.done and launched.wait() is True


def test_spans_lie_one_behind_the_other(stream: ThreadStream) -> None:
    before = time.perf_counter_ns()
    launched = [stream.launch(lambda: time.sleep(1e-3)) for _ in range(3)]
    for item in launched:
        item.wait()
    times = [before, *[edge for item in launched for edge in item.span], time.perf_counter_ns()]
    assert times == sorted(times)
    assert all(item.span[1] - item.span[0] >= 10**6 for item in launched)


def test_an_exception_stays_with_its_work(stream: ThreadStream) -> None:
    class Stopped(BaseException):
        pass

    def fails() -> None:
        raise Stopped("of the work")

    failed, other = stream.launch(fails), stream.launch(lambda: 5)
    assert other.wait() == 5 and failed.done
    for _ in range(2):
        with pytest.raises(Stopped, match="of the work"):
            failed.wait()
    stream.launch(fails)
    stream.drain()
    assert stream.launch(lambda: 6).wait() == 6


def test_calls_run_here_behind_everything_launched(stream: ThreadStream) -> None:
    order: list[str] = []
    stream.launch(lambda: (time.sleep(0.01), order.append("launched")))
    called = stream.call(lambda: (order.append("called"), threading.get_ident())[1])
    assert called.wait() == threading.get_ident() and order == ["launched", "called"]
    assert called.done and called.span[0] <= called.span[1]
    with pytest.raises(KeyError):
        stream.call(lambda: {}["nothing"])


def test_draining_waits_for_everything(stream: ThreadStream) -> None:
    stream.drain()  # nothing was ever launched
    ended: list[int] = []
    for number in range(5):
        stream.launch(lambda n=number: (time.sleep(1e-3), ended.append(n)))
    stream.drain()
    assert ended == list(range(5))
    drained = stream.launch(stream.drain)  # by a destructor, say, on the stream's own thread
    drained.wait()


def test_closing_drains_and_ends_the_thread() -> None:
    stream, ended = ThreadStream(), []
    stream.launch(lambda: (time.sleep(0.01), ended.append(1)))
    thread = stream._thread
    stream.close()
    stream.close()
    assert ended == [1] and thread is not None and not thread.is_alive()
    with pytest.raises(EngineClosedError):
        stream.launch(lambda: None)
    ThreadStream().close()


def test_many_threads_may_wait(stream: ThreadStream) -> None:
    launched = stream.launch(lambda: (time.sleep(0.01), 7)[1])
    values: list[int] = []
    threads = [threading.Thread(target=lambda: values.append(launched.wait())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [7] * 8


def test_a_forgotten_stream_ends_its_thread_behind_its_work() -> None:
    stream, held = ThreadStream(), threading.Event()
    ended: list[bool] = []
    stream.launch(lambda: ended.append(held.wait(5)))
    gone, thread = weakref.ref(stream), stream._thread
    held.set()
    del stream
    gc.collect()
    assert gone() is None and ended == [True] and thread is not None and not thread.is_alive()


def test_a_stream_may_be_collected_on_its_own_thread() -> None:
    box = [ThreadStream()]
    launched = box[0].launch(lambda: (time.sleep(0.01), box.clear()))
    thread = box[0]._thread
    launched.wait()
    assert thread is not None
    thread.join(5)
    assert not thread.is_alive()


def test_what_a_work_holds_goes_with_it(stream: ThreadStream) -> None:
    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    launched = stream.launch(lambda held=held: None)
    del held
    launched.wait()
    stream.launch(lambda: None).wait()
    assert gone() is None


SCRIPT = """
import os, sys, time
from deepinfer.worker.thread_stream import ThreadStream
stream = ThreadStream()
{body}
"""


def run_script(body: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_process_ends_behind_what_is_launched() -> None:
    assert run_script("stream.launch(lambda: (time.sleep(0.2), os.write(1, b'ended')))") == "ended"


FORK = """
launched = stream.launch(lambda: time.sleep(0.3))
if os.fork() == 0:
    stream.drain()
    try:
        launched.wait()
    except Exception as error:
        os.write(1, type(error).__name__.encode())
    stream.launch(lambda: os.write(1, b" again")).wait()
    stream.close()
    os._exit(0)
os.wait()
launched.wait()
"""


def test_a_forked_child_begins_anew() -> None:
    assert run_script(FORK) == f"{DeepInferError.__name__} again"
