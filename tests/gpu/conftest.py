"""Tests that need a GPU: run by `tests/gpu/run_all.py` on a machine that has one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from deepinfer.core.sync_guard import SYNC_GUARD

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session", autouse=True)
def guarded() -> Iterator[None]:
    """No launch phase of these tests may wait for the GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SYNC_GUARD, "enabled", True)
        yield


@pytest.fixture(scope="session")
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch.device("cuda:0")
