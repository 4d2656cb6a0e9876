"""Records what the engines of all worker processes do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from deepinfer.engine.parallel_runtime import ParallelRuntime
from deepinfer.errors import DeepInferError, WorkerFailedError
from deepinfer.profile.step_trace import StepTrace


@contextmanager
def traced_ranks(runtime: ParallelRuntime) -> Generator[StepTrace, None, None]:
    """As `traced_steps`, of every rank. Each begins and ends between two steps of its own."""
    for refused in runtime.loop.ask_ranks("begin trace"):
        if isinstance(refused, DeepInferError):
            raise refused
    trace, are_lost = StepTrace(), False
    try:
        yield trace
    except WorkerFailedError:
        are_lost = True
        raise
    finally:
        for rank, part in enumerate([] if are_lost else runtime.loop.ask_ranks("end trace")):
            trace.modes = trace.modes or {**part.modes, "num_ranks": runtime.config.parallel.world_size}
            trace.num_lost += part.num_lost
            trace.spans += [replace(span, rank=rank) for span in part.spans]
