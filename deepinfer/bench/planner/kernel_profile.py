"""Measured times of every op of a model on one GPU, and of decode steps made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from deepinfer.bench.machine_limits import GPU_LAUNCH_SECONDS
from deepinfer.bench.planner.lockstep_costs import LockstepCosts
from deepinfer.bench.planner.measured_step import MeasuredStep
from deepinfer.bench.planner.op_point import OpPoint
from deepinfer.bench.step_calls import OpKey
from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.strict_json import read_json_object, shown_path
from deepinfer.errors import ConfigError

_LIMITS: Final = ("gigabytes_per_second", "giga_multiply_adds_per_second")


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """What `deepinfer bench ops --device cuda --json` prints, and in "steps" what whole steps took.

    Attributes:
        name: of the file, for messages.
        context_len: tokens before the rows.
        bytes_per_us, multiply_adds_per_us: limits of the GPU.
        ops: points of each use of an op, rows ascending.
        shapes: operand shapes of each use at its first point.
        steps: measured steps, maybe none.
        lockstep: measured with ranks that share experts; None without.
    """

    name: str
    context_len: int
    bytes_per_us: float
    multiply_adds_per_us: float
    ops: Mapping[OpKey, tuple[OpPoint, ...]]
    shapes: Mapping[OpKey, str]
    steps: tuple[MeasuredStep, ...]
    lockstep: LockstepCosts | None = None

    @classmethod
    def read(cls, path: Path) -> KernelProfile:
        """From a file. ConfigError names it and what it lacks."""
        content = read_json_object(path)
        name = shown_path(path)
        try:
            limits = [_above_zero(content["limits"], name) for name in _LIMITS]
            ops, shapes = _read_ops(content["ops"])
            profile = cls(
                name=name,
                context_len=round(_above_zero(content["about"], "context_len")),
                bytes_per_us=limits[0] * 1e3,
                multiply_adds_per_us=limits[1] * 1e3,
                ops=ops,
                shapes=shapes,
                steps=tuple(map(MeasuredStep.parse, content.get("steps", ()))),
                lockstep=LockstepCosts.parse(content["lockstep"]) if "lockstep" in content else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            expectation = "expected what deepinfer bench ops --device cuda --json prints"
            raise ConfigError(f"{name}: no profile of kernels ({error!r}); {expectation}") from error
        return profile

    def points(self, key: OpKey) -> tuple[OpPoint, ...]:
        """Of one use of an op. ConfigError when it was not measured."""
        if key not in self.ops:
            raise ConfigError(f"{self.name}: no times of {key[0]} ({key[1]}), which the model calls; measure it again")
        return self.ops[key]

    def at_floors(self) -> KernelProfile:
        """The same with every op as fast as the GPU's limits let it be: its bytes at the speed of a copy or its
        multiply-adds at that of a bf16 product, whichever takes longer, and a launch. Steps and what
        ranks measured are left out.
        """
        floors = {key: tuple(self._floor(point) for point in points) for key, points in self.ops.items()}
        return replace(self, ops=floors, steps=(), lockstep=None)

    def _floor(self, point: OpPoint) -> OpPoint:
        work = max(point.num_bytes / self.bytes_per_us, point.multiply_adds / self.multiply_adds_per_us)
        return replace(point, us=min(point.us, work + GPU_LAUNCH_SECONDS * 1e6))


def _read_ops(rows: list[dict[str, Any]]) -> tuple[dict[OpKey, tuple[OpPoint, ...]], dict[OpKey, str]]:
    found: dict[OpKey, dict[int, OpPoint]] = {}  # by rows: what is measured again replaces it
    shapes: dict[OpKey, str] = {}
    for row in rows:
        us = _above_zero(row["backends"]["cuda"], "median_us")
        rows_of_step = round(_above_zero(row, "rows"))
        key = (row["op"], row["use"])
        point = OpPoint(rows_of_step, us, float(row["bytes"]), float(row["multiply_adds"] or 0))
        found.setdefault(key, {})[rows_of_step] = point
        shapes.setdefault(key, row["shapes"])
    if not found:
        raise ValueError("no op")
    return {key: tuple(points[number] for number in sorted(points)) for key, points in found.items()}, shapes


def _above_zero(values: Mapping[str, Any], name: str) -> float:
    value = values[name]
    if not is_finite_number(value) or value <= 0:
        raise ValueError(f"{name} is {value!r}, not a number above 0")
    return float(value)
