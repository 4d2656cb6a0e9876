"""Cost curves of decoding as a value: what a target step takes by its rows, and a draft pass by its sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.strict_json import read_json_object, shown_path
from deepinfer.errors import ConfigError
from deepinfer.shown_value import shown_value

Curve = tuple[tuple[int, float], ...]

_MAX_SIZE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CostCurves:
    """Two staircases; a size between two points costs what the larger one does.

    Attributes:
        step: (rows, milliseconds) of target steps, sizes ascending; beyond the last one no draft is verified.
        draft: (sequences, milliseconds) of draft passes; empty: drafting costs nothing.
        is_guess: the times are in a unit of their own and only roughly true; what steps take corrects them.
    """

    step: Curve
    draft: Curve = ()
    is_guess: bool = False

    @classmethod
    def parse(cls, value: Any, where: str) -> CostCurves:
        """From {"step": [[rows, ms], ...], "draft": [[sequences, ms], ...]}; other keys are notes of the writer.

        `where` names the source in the ConfigError for anything else.
        """
        if not isinstance(value, Mapping) or "step" not in value:
            raise ConfigError(f'{where}: expected {{"step": [[rows, ms], ...], "draft": [[sequences, ms], ...]}}')
        step = _curve(value["step"], f"{where}: step")
        if not step:
            raise ConfigError(f"{where}: step: no point; expected [[rows, ms], ...]")
        return cls(step, _curve(value.get("draft", ()), f"{where}: draft"))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> CostCurves:
        """From a JSON file. Raises ConfigError that names it."""
        return cls.parse(read_json_object(path), shown_path(path))

    def to_dict(self) -> dict[str, list[list[float]]]:
        """What `parse` takes, JSON-safe."""
        return {"step": [list(point) for point in self.step], "draft": [list(point) for point in self.draft]}


def _curve(points: Any, where: str) -> Curve:
    if not isinstance(points, (list, tuple)):
        raise ConfigError(f"{where}: {shown_value(points)}; expected [[size, ms], ...]")
    curve: list[tuple[int, float]] = []
    for point in points:
        if not isinstance(point, (list, tuple)) or len(point) != 2:
            raise ConfigError(f"{where}: {shown_value(point)}; expected [size, ms]")
        size, ms = point
        last = curve[-1][0] if curve else 0
        if type(size) is not int or not last < size <= _MAX_SIZE:
            expectation = f"ascending whole numbers from 1 to {_MAX_SIZE}"
            raise ConfigError(f"{where}: size {shown_value(size)} after {last}; expected {expectation}")
        if not is_finite_number(ms) or ms <= 0:
            raise ConfigError(f"{where}: {shown_value(ms)} ms at size {size}; expected a positive time")
        curve.append((size, float(ms)))
    return tuple(curve)
