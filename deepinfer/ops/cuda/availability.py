"""Whether the cuda backend can run here, without loading a kernel."""

from __future__ import annotations

import importlib.util

import torch

_CAPABILITIES = {(9, 0): "SM90", (10, 0): "SM100"}


def cuda_unavailable(device: str) -> str | None:
    """Why the cuda backend cannot run on `device` ("auto", "cpu", "cuda" or "cuda:<index>"); None when it can."""
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cuda"):
        return f"device = {device!r} is not a GPU"
    if not torch.cuda.is_available():
        return f"torch sees no GPU here (torch {torch.__version__})"
    number = int(index) if index.isdigit() else 0
    if number >= torch.cuda.device_count():
        return f"device = {device!r}: torch sees {torch.cuda.device_count()} GPUs here"
    capability = torch.cuda.get_device_capability(number)
    if capability not in _CAPABILITIES:
        return f"{torch.cuda.get_device_name(number)} has compute capability {capability[0]}.{capability[1]}; the " + (
            "kernels are written for SM90 and SM100"
        )
    missing = [name for name in ("tilelang", "triton") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed: pip install deepinfer[gpu]" if missing else None
