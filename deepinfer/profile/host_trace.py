"""Notes when the phases of a step begin and end, what the device did for it, and how requests fared."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from deepinfer._C import StepPlan
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.outputs import RequestOutput
from deepinfer.profile.request_life import RequestLife
from deepinfer.profile.span import Span

_DECISIONS: Final = ("schedule", "update")  # phases that the scheduler's lane has as well


class HostTrace:
    """Growing lists; one thread at a time writes.

    Attributes:
        spans: phases in the order of their ends, and the device's parts of steps.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._details: dict[str, Any] = {}
        self._began = time.perf_counter_ns()
        self._offset = self._began - time.monotonic_ns()
        self._lives: dict[tuple[str, float], RequestLife] = {}

    def add(self, name: str, begin: int) -> None:
        """A phase that ends now.

        Args:
            name: of the phase.
            begin: `time.perf_counter_ns` when it began.
        """
        span = Span(name, "host", begin, time.perf_counter_ns(), self._details)
        self._details = {}
        self.spans.append(span)
        if name in _DECISIONS:
            self.spans.append(Span(name, "scheduler", begin, span.end, span.details))

    def describe(self, plan: StepPlan) -> None:
        """The phase that ends next works on this step."""
        self._details = _details(plan)

    def add_device(self, plan: StepPlan, launched: LaunchedStep) -> None:
        """What the device did for a step; behind `LaunchedStep.wait`."""
        for name, (begin, end) in (("forward", launched.forward.span), ("sample", launched.sample.span)):
            self.spans.append(Span(name, "device", begin, end, _details(plan)))

    def add_ended(self, outputs: Iterable[RequestOutput]) -> None:
        """Requests that have ended; naming one again changes nothing."""
        self.add_lives(life for output in outputs if (life := RequestLife.of(output)) is not None)

    def add_lives(self, lives: Iterable[RequestLife]) -> None:
        """How requests fared; what is known of one later counts."""
        self._lives.update({(life.request_id, life.arrived): life for life in lives})

    def request_spans(self) -> list[Span]:
        """The lives of requests until now, from the beginning of the trace on."""
        now = time.perf_counter_ns()
        return [span for life in self._lives.values() for span in life.spans(self._offset, self._began, now)]


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


def _details(plan: StepPlan) -> dict[str, Any]:
    return {"kind": plan.kind, "step_id": plan.step_id, "num_seqs": plan.num_seqs, "num_tokens": plan.num_tokens}
