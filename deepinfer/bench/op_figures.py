"""What one op takes on several backends, and the share of the machine's limits that this is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.spread import Spread


@dataclass(frozen=True, slots=True)
class OpFigures:
    """One op with operands of one set of shapes.

    Attributes:
        rows: rows of the step.
        name, shapes: of the call.
        count: such calls in a step.
        num_bytes: read and written.
        multiply_adds: None for an op without products.
        seconds: time of a call by backend; "<backend> native": without the Python around native code.
    """

    rows: int
    name: str
    shapes: str
    count: int
    num_bytes: int
    multiply_adds: int | None
    seconds: Mapping[str, Spread]

    def bandwidth_share(self, backend: str, limits: MachineLimits) -> float:
        """Share of the memory bandwidth. Operands that caches hold may take it beyond 1."""
        return self.num_bytes / self.seconds[backend].median / limits.bytes_per_second

    def arithmetic_share(self, backend: str, limits: MachineLimits) -> float | None:
        """Share of the peak arithmetic; None for an op without products, or without a peak."""
        if self.multiply_adds is None or not limits.multiply_adds_per_second:
            return None
        return self.multiply_adds / self.seconds[backend].median / limits.multiply_adds_per_second

    def floor_seconds(self, limits: MachineLimits, launch_seconds: float) -> float:
        """What a call takes at least; see `MachineLimits.floor_seconds`."""
        return limits.floor_seconds(self.num_bytes, self.multiply_adds, launch_seconds)

    def to_dict(self, limits: MachineLimits) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "rows": self.rows,
            "op": self.name,
            "shapes": self.shapes,
            "calls": self.count,
            "bytes": self.num_bytes,
            "multiply_adds": self.multiply_adds,
            "backends": {
                name: {
                    **spread.to_dict("us", 1e6),
                    "bandwidth_share": self.bandwidth_share(name, limits),
                    "arithmetic_share": self.arithmetic_share(name, limits),
                }
                for name, spread in self.seconds.items()
            },
        }
