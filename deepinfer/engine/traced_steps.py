"""Records what the engine does: requests, the phases of steps, the device and native code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from deepinfer.distributed.exchange_log import LoggedSpan
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.errors import ConfigError, EngineClosedError
from deepinfer.profile.host_trace import HostTrace
from deepinfer.profile.span import Lane, Span
from deepinfer.profile.step_trace import StepTrace

_CAPACITY: Final = 1 << 20  # native spans


@contextmanager
def traced_steps(runtime: EngineRuntime) -> Generator[StepTrace, None, None]:
    """Everything that steps do inside the block; the trace is filled at its end.

    Raises ConfigError when the engine is being traced already.
    """
    engine, config, backend = runtime.engine, runtime.config, runtime.worker.backend
    if backend is None:
        raise EngineClosedError("this engine is closed; build a new LLM")
    if engine.trace is not None:
        raise ConfigError("this engine is being traced already; end that trace first")
    trace = StepTrace()
    trace.modes = {
        "backend": backend.name,
        "numerics": config.numerics.value,
        "num_threads": config.num_threads,
        "num_drafts": config.speculative.num_drafts or 0,
        "overlap": bool(config.overlap),
    }
    groups = None if runtime.worker.model is None else runtime.worker.model.runtime.groups
    log = None if groups is None else groups.log
    host = HostTrace()
    with runtime.loop.between_steps():  # native code writes its spans without a lock
        engine.trace = host
        if backend.context is not None:
            backend.context.start_trace(_CAPACITY)
        if log is not None:
            log.start()
    try:
        yield trace
    finally:
        with runtime.loop.between_steps():
            engine.trace = None
            host.add_lives(engine.unfinished_lives())
            trace.spans += [*host.spans, *host.request_spans()]
            if backend.context is not None:
                trace.spans += [
                    Span(name, "call" if is_call else "op", begin, end)
                    for name, is_call, begin, end in backend.context.stop_trace()
                ]
                trace.num_lost = backend.context.num_lost_events
            if log is not None:
                trace.spans += [_exchange_span(span) for span in log.stop()]


def _exchange_span(span: LoggedSpan) -> Span:
    half = span.part + 1
    name = f"{span.name}, half {half}" if span.activity != "wait" else f"wait for {span.name}, half {half}"
    lane: Lane = "halves"
    if span.activity == "exchange":
        lane = "exchange 1" if half == 1 else "exchange 2"
    return Span(name, lane, span.begin, span.end, {"half": half})
