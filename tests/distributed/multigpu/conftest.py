"""Worlds of ranks on CPUs and on GPUs, of any size, that live as long as the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import torch

from tests.distributed.rank_world import RankWorld

GPU_SIZES = (2, 4, 8)
PLACES = [
    pytest.param("cpu", 2, id="cpu-2", marks=pytest.mark.slow),
    pytest.param("cpu", 4, id="cpu-4", marks=pytest.mark.slow),
    *(pytest.param("cuda", size, id=f"cuda-{size}", marks=pytest.mark.multigpu) for size in GPU_SIZES),
]


def require_gpus(num: int) -> None:
    """Skips the test where there are fewer."""
    if torch.cuda.device_count() < num:
        pytest.skip(f"torch sees {torch.cuda.device_count()} GPUs here, the test needs {num}")


@pytest.fixture(scope="session")
def world_of() -> Iterator[Callable[[str, int], RankWorld]]:
    """(device, size) -> world; made when it is first asked for, and anew when a test has broken it. Skips the test
    where there are too few GPUs.
    """
    worlds: dict[tuple[str, int], RankWorld] = {}
    with ExitStack() as stack:

        def world(device: str, size: int) -> RankWorld:
            if device == "cuda":
                require_gpus(size)
            if (device, size) in worlds and worlds[device, size].is_broken:
                worlds.pop((device, size)).__exit__()
            if (device, size) not in worlds:
                worlds[device, size] = stack.enter_context(RankWorld(size, device))
            return worlds[device, size]

        yield world
