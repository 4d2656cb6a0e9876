"""Notes when the phases of a step begin and end."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from deepinfer.profile.span import Span


class HostTrace:
    """A growing list of spans of one thread.

    Attributes:
        spans: in the order of their ends.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._details: dict[str, Any] = {}

    def add(self, name: str, begin: int) -> None:
        """A span that ends now.

        Args:
            name: of the phase.
            begin: `time.perf_counter_ns` when it began.
        """
        self.spans.append(Span(name, "host", begin, time.perf_counter_ns(), self._details))
        self._details = {}

    def describe(self, **details: Any) -> None:
        """Details of the span that ends next."""
        self._details = details


class Traced(Protocol):
    """Who has phases. While `trace` is None nothing is noted."""

    trace: HostTrace | None


_Self = TypeVar("_Self", bound=Traced)
_Result = TypeVar("_Result")
_Params = ParamSpec("_Params")
_Method = Callable[Concatenate[_Self, _Params], _Result]


def phase(name: str) -> Callable[[_Method[_Self, _Params, _Result]], _Method[_Self, _Params, _Result]]:
    """Decorates a method that is a phase of a step."""

    def decorate(method: _Method[_Self, _Params, _Result]) -> _Method[_Self, _Params, _Result]:
        @functools.wraps(method)
        def traced(self: _Self, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
            trace = self.trace
            if trace is None:
                return method(self, *args, **kwargs)
            begin = time.perf_counter_ns()
            try:
                return method(self, *args, **kwargs)
            finally:
                trace.add(name, begin)

        return cast(_Method[_Self, _Params, _Result], traced)

    return decorate
