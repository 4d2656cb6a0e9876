"""Expert loads of the last steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class LoadWindow:
    """Keeps how many tokens each expert got in each of the last steps; older steps are overwritten.

    Steps of zeros (nothing was routed) count as steps: they change no decision.
    """

    def __init__(self, num_steps: int, num_layers: int, num_experts: int) -> None:
        """
        Args:
            num_steps: steps that are kept.
            num_layers, num_experts: the last two sizes of what `add` takes; experts may be logical ones, or the places
                of one rank.
        """
        assert num_steps >= 1, num_steps
        self._counts = np.zeros((num_steps, num_layers, num_experts), np.int64)
        self._num_added = 0

    def add(self, counts: npt.ArrayLike) -> None:
        """One step: tokens int [num_layers, num_experts] (a token counts once for each of its experts)."""
        self._counts[self._num_added % len(self._counts)] = counts
        self._num_added += 1

    def loads(self) -> npt.NDArray[np.int64]:
        """A copy of what is kept, oldest step first: int64 [steps, num_layers, num_experts]."""
        if self._num_added < len(self._counts):
            return self._counts[: self._num_added].copy()
        return np.roll(self._counts, -(self._num_added % len(self._counts)), axis=0)
