"""The guard against waiting for the GPU: scopes of many threads over one switch. No GPU is needed for that."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from deepinfer.core.sync_guard import SyncGuard, allow_device_sync, forbid_device_sync
from deepinfer.errors import DeviceSyncError


class Switch:
    """Torch's switch as a variable; an operation that waits asks it."""

    def __init__(self) -> None:
        self.mode = "default"

    def get(self) -> str:
        return self.mode

    def set(self, mode: str) -> None:
        self.mode = mode

    def wait(self) -> None:
        """As torch does."""
        if self.mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")


@pytest.fixture
def switch() -> Switch:
    return Switch()


@pytest.fixture
def guard(switch: Switch) -> Iterator[SyncGuard]:
    guard = SyncGuard(switch)
    guard.enabled = True
    yield guard
    assert not guard._stacks


def in_threads(*functions: Callable[[], None]) -> None:
    """Run side by side; the first exception of any comes out."""
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_scopes_of_one_thread_nest(guard: SyncGuard, switch: Switch) -> None:
    with guard.forbid():
        assert switch.mode == "error"
        with guard.allow():
            assert switch.mode == "default"
            with guard.forbid():
                assert switch.mode == "error"
            assert switch.mode == "default"
        assert switch.mode == "error"
    assert switch.mode == "default"


def test_what_stood_before_the_first_scope_comes_back(guard: SyncGuard, switch: Switch) -> None:
    switch.mode = "warn"
    with guard.forbid(), guard.allow():
        assert switch.mode == "default"
    assert switch.mode == "warn"


def test_scopes_of_two_threads_may_end_in_any_order(guard: SyncGuard, switch: Switch) -> None:
    """Saving and restoring the switch would leave it at "error"."""
    steps = [threading.Event() for _ in range(3)]

    def forbids() -> None:
        with guard.forbid():
            steps[0].set()
            assert steps[1].wait(5)
        steps[2].set()

    def allows() -> None:
        assert steps[0].wait(5)
        with guard.allow():
            assert switch.mode == "default"
            steps[1].set()
            assert steps[2].wait(5)
            assert switch.mode == "default"

    in_threads(forbids, allows)
    assert switch.mode == "default"


def test_all_threads_forbid(guard: SyncGuard, switch: Switch) -> None:
    barrier = threading.Barrier(4)

    def forbids() -> None:
        with guard.forbid():
            barrier.wait(5)
            assert switch.mode == "error"
            barrier.wait(5)

    in_threads(*[forbids] * 4)
    assert switch.mode == "default"


def test_who_allows_never_sees_error(guard: SyncGuard, switch: Switch) -> None:
    end = time.monotonic() + 0.3

    def nested(rng: random.Random, depth: int, scope: Callable[[], object], modes: tuple[str, ...]) -> None:
        with scope():
            assert switch.mode in modes
            if depth and rng.random() < 0.5:
                nested(rng, depth - 1, scope, modes)
            assert switch.mode in modes

    def run(seed: int, scope: Callable[[], object], modes: tuple[str, ...]) -> None:
        rng = random.Random(seed)
        while time.monotonic() < end:
            nested(rng, 4, scope, modes)

    allowing = [lambda seed=seed: run(seed, guard.allow, ("default",)) for seed in range(4)]
    forbidding = [lambda seed=seed: run(seed, guard.forbid, ("error", "default")) for seed in range(4)]
    in_threads(*allowing, *forbidding)
    assert switch.mode == "default"


def test_decorated_functions_run_in_many_threads(guard: SyncGuard, switch: Switch) -> None:
    @guard.allow()
    def allowed() -> None:
        assert switch.mode == "default"

    @guard.forbid()
    def forbidden() -> None:
        assert switch.mode in ("error", "default")

    in_threads(*[lambda: [allowed() for _ in range(200)]] * 3, *[lambda: [forbidden() for _ in range(200)]] * 3)
    assert switch.mode == "default"


def test_the_error_names_the_place(guard: SyncGuard, switch: Switch) -> None:
    def handed_over() -> None:
        switch.wait()  # the place

    message = r"test_sync_guard\.py:\d+ \(raise RuntimeError.*allow_device_sync"
    with pytest.raises(DeviceSyncError, match=message), guard.forbid(), guard.allow(), guard.forbid():
        handed_over()
    switch.wait()
    with guard.forbid(), guard.allow():
        switch.wait()


def test_other_errors_pass(guard: SyncGuard, switch: Switch) -> None:
    with pytest.raises(RuntimeError, match="^another$"), guard.forbid():
        raise RuntimeError("another")
    with pytest.raises(KeyError, match="synchronizing"), guard.forbid():
        raise KeyError("synchronizing")
    assert switch.mode == "default"


def test_turned_off(guard: SyncGuard, switch: Switch) -> None:
    guard.enabled = False

    @guard.forbid()
    def forbidden() -> None:
        switch.wait()

    forbidden()
    with guard.forbid():
        switch.wait()


def test_without_a_gpu_torchs_own_switch_is_left_alone() -> None:
    with forbid_device_sync(), allow_device_sync():
        pass


def test_off_until_enabled(switch: Switch) -> None:
    """The switch is the whole process's: the caller's own threads may wait."""
    guard = SyncGuard(switch)
    with guard.forbid():
        in_threads(switch.wait)
        switch.wait()
    guard.enabled = True
    with guard.forbid(), pytest.raises(RuntimeError, match="synchronizing"):
        in_threads(switch.wait)
