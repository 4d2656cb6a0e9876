"""What one use of an op takes on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepinfer.bench.machine_limits import GPU_LAUNCH_SECONDS, MachineLimits
from deepinfer.bench.op_figures import OpFigures


@dataclass(frozen=True, slots=True)
class CudaOpFigures:
    """Attributes:
    op: times and work; backends are "cuda" and, where torch has the like, "torch".
    use: what the model does with it.
    num_sets: operands that were used in turns.
    is_cold: whether weights, tables and caches came from memory, as in a model. If not, the op's operands are what
        the op before it wrote, or a few rows of a table, and lay in the L2 cache.
    is_graph: whether calls were replayed from a CUDA graph.
    library: torch's operation and what it leaves out, or how it failed; "" for none.
    """

    op: OpFigures
    use: str
    num_sets: int
    is_cold: bool
    is_graph: bool
    library: str

    def floor_seconds(self, limits: MachineLimits) -> float:
        """Of a call, with one launch."""
        return self.op.floor_seconds(limits, GPU_LAUNCH_SECONDS)

    def to_dict(self, limits: MachineLimits) -> dict[str, Any]:
        """JSON-safe."""
        timed_by = "CUDA graph" if self.is_graph else "CUDA events"
        own = {"use": self.use, "operand_sets": self.num_sets, "cold": self.is_cold}
        floor = {"floor_us": self.floor_seconds(limits) * 1e6}
        return self.op.to_dict(limits) | own | floor | {"timed_by": timed_by, "library": self.library}
