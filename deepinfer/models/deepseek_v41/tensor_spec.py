"""One tensor that a checkpoint must hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

_DTYPE_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "F8_E8M0": 1, "I8": 1}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, type and shape of a stored tensor.

    Attributes:
        name: checkpoint name without the optional ``model.`` prefix.
        dtype: safetensors type: BF16, F32, F8_E4M3, F8_E8M0 (scales), I8 (two FP4 codes a byte).
        shape: dimensions as stored.
        group: part of the model it is counted under (`weights.GROUPS`).
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    group: str

    @property
    def num_bytes(self) -> int:
        """Stored bytes."""
        return math.prod(self.shape) * _DTYPE_BYTES[self.dtype]

    @property
    def num_parameters(self) -> int:
        """Weights it holds; scales hold none, a byte of FP4 codes holds two."""
        if self.dtype == "F8_E8M0":
            return 0
        return math.prod(self.shape) * (2 if self.dtype == "I8" else 1)
