"""How much memory a GPU has and could still give, as its driver says."""

from __future__ import annotations

from collections.abc import Callable

import torch


class GpuMemoryProbe:
    """Reads a GPU's memory; what torch has reserved counts as taken.

    Args:
        device: the GPU.
        read: device -> (free, total) bytes (tests give a fake one).
    """

    def __init__(
        self, device: torch.device, read: Callable[[torch.device], tuple[int, int]] = torch.cuda.mem_get_info
    ) -> None:
        self._device = device
        self._read = read

    def free_bytes(self) -> int:
        """Bytes that no process has allocated."""
        return self._read(self._device)[0]

    def total_bytes(self) -> int:
        """Bytes the GPU has."""
        return self._read(self._device)[1]
