"""A decode step's sampling, acceptance and draft pass on the GPU against the host's way, eager and replayed."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

import pytest
import torch

from tests.worker.device_steps import check_device_steps

_SEEDS = itertools.count(secrets.randbelow(2**31))


def without_waiting(work: Callable[[], None], state: list[torch.Tensor]) -> None:
    """Torch raises an error at any operation that would wait."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def replayed(work: Callable[[], None], state: list[torch.Tensor]) -> None:
    """A captured graph gives the same as the call: it begins where that began, and only what it wrote is left."""
    before = [part.clone() for part in state]
    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for part, value in zip(state, before, strict=True):
        part.copy_(value)
    for part in state[:4]:
        part.fill_(-7)
    graph.replay()


@pytest.mark.parametrize("run", [without_waiting, replayed])
@pytest.mark.parametrize("rejection", [False, True])
@pytest.mark.parametrize("sizes", [(1, 16, 20), (40, 24, 40), (6, 5000, 20)])
def test_steps(device: torch.device, sizes: tuple[int, int, int], rejection: bool, run: Callable[..., None]):
    seed = next(_SEEDS)
    print("seed", seed)
    judged, accepted = check_device_steps(seed, sizes, rejection, device, run)
    print(f"{accepted} of {judged} drafts accepted")
    assert sizes[1] > 100 or sizes[0] == 1 or 0 < accepted < judged
