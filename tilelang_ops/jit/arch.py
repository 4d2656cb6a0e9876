"""GPU architectures that kernels are compiled for."""

from __future__ import annotations

import functools

import torch

ARCHES = ("sm_90a", "sm_100a")


@functools.cache
def arch_of(device: torch.device) -> str:
    """Architecture of a CUDA device.

    Raises:
        ValueError: the device is neither SM90 nor SM100.
    """
    major, minor = torch.cuda.get_device_capability(device)
    arch = f"sm_{major}{minor}a"
    if arch not in ARCHES:
        raise ValueError(f"{device}: compute capability {major}.{minor}; the kernels are written for 9.0 and 10.0")
    return arch


def is_sm100(arch: str) -> bool:
    """Whether matrix kernels take their tcgen05 form."""
    return arch == "sm_100a"
