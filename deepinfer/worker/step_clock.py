"""A stopwatch for the parts of a step on its device."""

from __future__ import annotations

import time

import torch


class StepClock:
    """Waits for the device before it looks at the clock, so that what was started counts where it was started."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._last = 0.0

    def start(self) -> None:
        """Begin the first part."""
        self._last = self._now()

    def lap_ms(self) -> float:
        """Milliseconds of the part that ends here; the next begins."""
        last, self._last = self._last, self._now()
        return (self._last - last) * 1e3

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()
