"""One op's part in a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepinfer.bench.machine_limits import MachineLimits
from deepinfer.bench.op_figures import OpFigures
from deepinfer.config.field_reader import is_finite_number


@dataclass(frozen=True, slots=True)
class StepOp:
    """Calls of one use of an op that have the same rows.

    Attributes:
        op, use: as `deepinfer bench ops` names them; no use where calls were recorded from a model.
        rows: of a call.
        calls: in the step.
        seconds: of a call, timed alone.
        floor_seconds: of a call.
    """

    op: str
    use: str
    rows: int
    calls: int
    seconds: float
    floor_seconds: float

    @classmethod
    def of(cls, figures: OpFigures, use: str, backend: str, limits: MachineLimits, launch_seconds: float) -> StepOp:
        """From an op's figures.

        Args:
            figures: with the calls of the step.
            use: of the op.
            backend: name of the times that count.
            limits: of the machine.
            launch_seconds: added to the floor; 0 on a CPU.
        """
        seconds, floor = figures.seconds[backend].median, figures.floor_seconds(limits, launch_seconds)
        return cls(figures.name, use, figures.rows, figures.count, seconds, floor)

    @classmethod
    def parse(cls, value: Mapping[str, Any]) -> StepOp:
        """From what `to_dict` made. KeyError, TypeError or ValueError for anything else."""
        sizes, times = [value[name] for name in ("rows", "calls")], [value[name] for name in ("us", "floor_us")]
        if not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"{dict(value)!r}: rows and calls are whole numbers above 0")
        if not all(is_finite_number(us) and us > 0 for us in times):
            raise ValueError(f"{dict(value)!r}: us and floor_us are numbers above 0")
        return cls(str(value["op"]), str(value["use"]), *sizes, *(us * 1e-6 for us in times))

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "op": self.op,
            "use": self.use,
            "rows": self.rows,
            "calls": self.calls,
            "us": self.seconds * 1e6,
            "floor_us": self.floor_seconds * 1e6,
        }
