"""Research hooks: record named tensors and replace named components of a forward pass."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any, Protocol

import torch


class TensorSink(Protocol):
    """Receives recorded tensors; rows are aligned with the step's rows, or with `rows` when given."""

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None) -> None: ...


class Probe:
    """Handed down through a forward pass. Without patterns or replacements it does nothing.

    Names are the same in every backend: ``layers.3.ffn.experts``, ``final.hidden`` and so on (doc/research_hooks.md).
    """

    def __init__(self) -> None:
        self._sinks: list[tuple[tuple[str, ...], TensorSink]] = []
        self._replacements: dict[str, Callable[..., Any]] = {}

    @property
    def active(self) -> bool:
        """Whether anything is recorded."""
        return bool(self._sinks)

    def attach(self, patterns: tuple[str, ...], sink: TensorSink) -> None:
        """Record tensors whose name matches one of the shell-style patterns into `sink`."""
        self._sinks.append((patterns, sink))

    def detach(self, sink: TensorSink) -> None:
        """Stop recording into `sink`."""
        self._sinks = [item for item in self._sinks if item[1] is not sink]

    def record(self, name: str, tensor: torch.Tensor, rows: torch.Tensor | None = None) -> None:
        """Give `tensor` ([rows, ...]) to every sink that asked for `name`."""
        for patterns, sink in self._sinks:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                sink.record(name, tensor, rows)

    def replace(self, point: str, function: Callable[..., Any]) -> None:
        """Call ``function(original, *args)`` wherever the component `point` is called."""
        self._replacements[point] = function

    def restore(self, point: str) -> None:
        """Undo `replace`."""
        self._replacements.pop(point, None)

    def call(self, point: str, component: Callable[..., Any], *args: Any) -> Any:
        """Run a component, or what replaced it."""
        function = self._replacements.get(point)
        return component(*args) if function is None else function(component, *args)
