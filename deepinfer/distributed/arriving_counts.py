"""Counts that are on their way from the device to the host."""

from __future__ import annotations

import numpy as np
import torch


class ArrivingCounts:
    """Begun behind everything launched before; nobody waits until they are wanted.

    Args:
        counts: integer tensor of any shape, which may be overwritten afterwards by what is launched later.
    """

    def __init__(self, counts: torch.Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if counts.is_cuda:
            self._host = torch.empty(counts.shape, dtype=counts.dtype, pin_memory=True)
            self._host.copy_(counts, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._host = counts.clone()

    def take(self) -> np.ndarray:
        """The counts, of the same shape."""
        if self._event is not None:
            self._event.synchronize()
        return self._host.numpy()
