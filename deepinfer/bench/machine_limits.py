"""What the machine can do at best, as the measure of the ops' speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GPU_LAUNCH_SECONDS: Final = 3e-6  # of a kernel that waits for the one before


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Measured in the run itself: on a CPU by `deepinfer._C.cpu.Context.measure_limits`, with the threads of the run.

    Attributes:
        bytes_per_second: CPU: read from memory; GPU: read and written by a copy.
        multiply_adds_per_second: CPU: float32, on registers, 0 where the instruction set has none; GPU: a large
            bf16 product.
    """

    bytes_per_second: float
    multiply_adds_per_second: float

    def floor_seconds(self, num_bytes: int, multiply_adds: int | None, launch_seconds: float) -> float:
        """The longer one of moving an op's bytes and computing its products, and one launch."""
        products = 0.0
        if multiply_adds is not None and self.multiply_adds_per_second:
            products = multiply_adds / self.multiply_adds_per_second
        return max(num_bytes / self.bytes_per_second, products) + launch_seconds

    def to_dict(self) -> dict[str, float]:
        """JSON-safe."""
        return {
            "gigabytes_per_second": self.bytes_per_second * 1e-9,
            "giga_multiply_adds_per_second": self.multiply_adds_per_second * 1e-9,
        }
