"""The GPU as a stream: order, times and late values; and the guard that finds calls which wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from deepinfer.core.sync_guard import allow_device_sync, forbid_device_sync
from deepinfer.errors import DeviceSyncError
from deepinfer.worker.cuda_stream import CudaStream

CYCLES = 20_000_000  # about 10 ms


@pytest.fixture
def stream(device: torch.device) -> Iterator[CudaStream]:
    stream = CudaStream(device)
    yield stream
    stream.close()


class Late:
    """A value in pinned memory, there once the device is through."""

    def __init__(self, number: int) -> None:
        self._there = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        torch.cuda._sleep(CYCLES)
        self._there.copy_(torch.full((1,), number, device="cuda"), non_blocking=True)

    def fetch(self) -> int:
        return int(self._there[0])


def test_work_is_handed_over_and_waited_for_later(stream: CudaStream) -> None:
    stream.launch(lambda: Late(0)).wait()
    begin = time.perf_counter()
    launched = [stream.launch(lambda n=n: Late(n)) for n in range(4)]
    handed_over = time.perf_counter() - begin
    assert not launched[-1].done
    assert [item.wait() for item in reversed(launched)] == [3, 2, 1, 0]
    assert [item.wait() for item in launched] == [0, 1, 2, 3]
    waited = time.perf_counter() - begin
    assert all(item.done and not item.failed for item in launched) and handed_over < waited


def test_spans_lie_one_behind_the_other_on_the_hosts_clock(stream: CudaStream) -> None:
    before = time.perf_counter_ns()
    launched = [stream.launch(lambda n=n: Late(n)) for n in range(4)]
    for item in launched:
        item.wait()
    after = time.perf_counter_ns()
    edges = [edge for item in launched for edge in item.span]
    slack = 200_000  # ns: how long the host may take to notice an end
    assert all(second >= first - slack for first, second in zip(edges, edges[1:], strict=False))
    assert before - slack <= edges[0] and edges[-1] <= after + slack
    assert all(end - begin > 1_000_000 for begin, end in (item.span for item in launched))
    done = stream.launch(lambda: Late(5))
    stream.drain()
    time.sleep(0.05)
    done.wait()  # it had ended long before
    assert done.span[0] >= edges[-1] - slack and done.span[1] <= time.perf_counter_ns() - 40_000_000


def test_a_mistake_on_the_host_comes_at_once(stream: CudaStream) -> None:
    with pytest.raises(KeyError):
        stream.launch(lambda: {}["nothing"])
    assert stream.call(lambda: Late(7)).wait() == 7


def test_waiting_inside_a_forbidding_scope_is_an_error(device: torch.device) -> None:
    tensor = torch.ones(1, device=device)
    with pytest.raises(DeviceSyncError, match=r"test_stream\.py:\d+"), forbid_device_sync():
        tensor.item()
    assert tensor.item() == 1
    with forbid_device_sync(), allow_device_sync():
        assert tensor.item() == 1
    event = torch.cuda.Event()
    with forbid_device_sync():
        event.record()
        event.synchronize()  # deliberate waits pass
    may_end, is_open = threading.Event(), threading.Event()

    def allows() -> None:
        with allow_device_sync():
            is_open.set()
            assert tensor.item() == 1
            may_end.wait(5)

    thread = threading.Thread(target=allows)
    thread.start()
    assert is_open.wait(5)
    with forbid_device_sync():
        assert tensor.item() == 1  # rather a report too few than a false one
    may_end.set()
    thread.join()
    with pytest.raises(DeviceSyncError), forbid_device_sync():
        tensor.item()


def test_order_whatever_the_caller_makes_current(device: torch.device) -> None:
    """A step may be in flight while the caller's own code picks another stream."""
    stream = CudaStream(device)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        current = stream.launch(lambda: torch.cuda.current_stream(device)).wait()
    assert current == torch.cuda.current_stream(device)
