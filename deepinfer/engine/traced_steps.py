"""Records what the engine's steps do, on the host and in native code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from deepinfer._C import cpu
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.errors import ConfigError
from deepinfer.profile.host_trace import HostTrace
from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace

_CAPACITY: Final = 1 << 20  # native spans


@contextmanager
def traced_steps(
    engine: LLMEngine, context: cpu.Context | None, modes: dict[str, Any]
) -> Generator[StepTrace, None, None]:
    """Everything that steps do inside the block; the trace is filled at its end.

    Args:
        engine: whose steps.
        context: of its native code; None: the host alone is traced.
        modes: what runs, for the trace.

    Raises ConfigError when the engine is being traced already.
    """
    if engine.trace is not None:
        raise ConfigError("this engine is being traced already; end that trace first")
    trace = StepTrace(modes=modes)
    host = engine.trace = HostTrace()
    if context is not None:
        context.start_trace(_CAPACITY)
    try:
        yield trace
    finally:
        engine.trace = None
        trace.spans += host.spans
        if context is not None:
            trace.spans += [
                Span(name, "call" if is_call else "op", begin, end)
                for name, is_call, begin, end in context.stop_trace()
            ]
            trace.num_lost = context.num_lost_events
