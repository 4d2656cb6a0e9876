"""Which torch device an engine runs on, and who reads its memory."""

from __future__ import annotations

import torch

from deepinfer.errors import ConfigError
from deepinfer.worker.gpu_memory import GpuMemoryProbe
from deepinfer.worker.host_memory import HostMemoryProbe
from deepinfer.worker.memory import MemoryProbe


def resolve_device(device: str, backend: str) -> torch.device:
    """The device behind "auto", "cpu", "cuda" or "cuda:<index>".

    "auto" is the CPU unless the chosen backend is "cuda": the reference backend runs on a GPU only when told to.
    Raises ConfigError for any other word, and when a GPU is named that torch does not see.
    """
    if device == "auto":
        device = "cuda" if backend == "cuda" else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device = {device!r}: expected auto, cpu, cuda or cuda:<index>") from None
    if chosen.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (chosen.index or 0) >= count:
            raise ConfigError(f"device = {device!r}: torch sees {count} GPUs here; use device='cpu' or another index")
    return chosen


def memory_probe(device: torch.device) -> MemoryProbe:
    """What sizes the caches on `device`: the GPU's own memory, or the host's."""
    return GpuMemoryProbe(device) if device.type == "cuda" else HostMemoryProbe()
