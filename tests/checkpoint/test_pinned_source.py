"""Engram tables for a GPU: which are copied to pinned memory."""

from __future__ import annotations

import pytest
import torch

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.model_path import bundled_model_path
from deepinfer.worker import model_loader


@pytest.mark.parametrize(
    ("device", "storage", "free", "expected"),
    [
        ("cpu", "host", 2**40, False),
        ("cuda", "disk", 2**40, False),
        ("cuda", "host", 0, True),
        ("cuda", "auto", 2**40, True),
        ("cuda", "auto", 0, False),
    ],
)
def test_which_tables_are_pinned(
    device: str, storage: str, free: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_loader.HostMemoryProbe, "free_bytes", lambda self: free)
    config = DeepSeekV41Config.from_path(bundled_model_path())
    assert config.has_engram
    assert model_loader._pins_tables(config, torch.device(device), storage) is expected
