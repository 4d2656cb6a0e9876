"""Research hooks: record named tensors and replace named components of a forward pass."""

from __future__ import annotations

import copy
import difflib
import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch

from deepinfer.errors import RequestError


class TensorSink(Protocol):
    """Receives recorded tensors; rows are aligned with the step's rows, or with `rows` when given.

    `end_step` says, by sequence number, how many tokens of the text have been fed: rows at later positions belonged to
    drafts that were wrong.
    """

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None) -> None: ...

    def end_step(self, num_fed: Mapping[int, int]) -> None: ...


class Probe:
    """Handed down through a forward pass. Without patterns or replacements it does nothing.

    Names are the same in every backend: ``layers.3.ffn.experts``, ``final.hidden`` and so on (doc/research_hooks.md).

    Args:
        points: components of the model that may be replaced.
    """

    def __init__(self, points: Iterable[str] = ()) -> None:
        self._points = tuple(points)
        self._sinks: list[tuple[tuple[str, ...], TensorSink]] = []
        self._replacements: dict[str, list[Callable[..., Any]]] = {}  # the newest last
        self._rows: torch.Tensor | None = None

    @property
    def active(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._sinks)

    @property
    def is_attached(self) -> bool:
        """Whether anything is recorded or replaced."""
        return self.active or any(self._replacements.values())

    def attach(self, patterns: tuple[str, ...], sink: TensorSink) -> None:
        """Record tensors whose name matches one of the shell-style patterns into `sink`."""
        self._sinks.append((patterns, sink))

    def detach(self, sink: TensorSink) -> None:
        """Stop recording into `sink`."""
        self._sinks = [item for item in self._sinks if item[1] is not sink]

    def narrowed(self, rows: torch.Tensor) -> Probe:
        """The same hooks for components that see only `rows`, int64 [n], of the step."""
        probe = copy.copy(self)
        probe._rows = rows
        return probe

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None = None) -> None:
        """Give `tensor` ([rows, ...]) to every sink that asked for `name`."""
        if self._rows is not None and self.active:
            rows = self._rows if rows is None else self._rows[rows]
        for patterns, sink in self._sinks:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                sink.record(name, tensor, rows)

    def end_step(self, num_fed: Mapping[int, int]) -> None:
        """Tell every sink which rows of the step count."""
        for _, sink in self._sinks:
            sink.end_step(num_fed)

    def replace(self, point: str, function: Callable[..., Any]) -> None:
        """Call ``function(original, *args)`` wherever the component `point` is called, until `restore`.

        A newer replacement hides an older one. Raises RequestError (code "unknown_point") with the nearest name.
        """
        if point not in self._points:
            near = difflib.get_close_matches(point, self._points, n=1, cutoff=0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise RequestError(f"the model has no component {point!r} to replace{hint}", code="unknown_point")
        self._replacements.setdefault(point, []).append(function)

    def restore(self, point: str, function: Callable[..., Any]) -> None:
        """Undo the newest `replace` with this function; an older replacement of the point is in force again."""
        functions = self._replacements[point]
        del functions[len(functions) - 1 - functions[::-1].index(function)]

    def call(self, point: str, component: Callable[..., Any], *args: Any) -> Any:
        """Run a component, or what replaced it."""
        functions = self._replacements.get(point)
        return functions[-1](component, *args) if functions else component(*args)
