"""Traces the engine of a worker process while its front end wants it."""

from __future__ import annotations

from contextlib import ExitStack

from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.traced_steps import traced_steps
from deepinfer.errors import DeepInferError
from deepinfer.profile.step_trace import StepTrace


class RankTracer:
    """Called between steps; what cannot be done is answered, since a worker that raises ends all."""

    def __init__(self, runtime: EngineRuntime) -> None:
        self._runtime = runtime
        self._open: tuple[ExitStack, StepTrace] | None = None

    def begin(self) -> DeepInferError | None:
        """Begin a trace; why there is none."""
        stack = ExitStack()
        try:
            trace = stack.enter_context(traced_steps(self._runtime))
        except DeepInferError as refused:
            return refused
        self._open = stack, trace
        return None

    def end(self) -> StepTrace:
        """What there was since then; an empty trace without a beginning."""
        stack, trace = self._open or (ExitStack(), StepTrace())
        self._open = None
        stack.close()
        return trace
