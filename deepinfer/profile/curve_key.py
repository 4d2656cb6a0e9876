"""What a measured cost curve is a curve of, as one hash."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("deepinfer", "torch", "tilelang")


def curve_key(checkpoint_config: Path, device: torch.device, settings: Mapping[str, Any]) -> str:
    """SHA-256 (hexadecimal) of everything that a step's time depends on.

    Args:
        checkpoint_config: the model's config.json.
        device: where it runs: its name, and for a CPU the threads, count.
        settings: JSON-safe options, by name.
    """
    parts = {
        "config": hashlib.sha256(checkpoint_config.read_bytes()).hexdigest(),
        "device": _device_name(device),
        "threads": torch.get_num_threads() if device.type == "cpu" else 0,
        "versions": {name: _version(name) for name in _PACKAGES},
        "settings": dict(settings),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_cpu_model()}, {os.cpu_count()} processors"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
