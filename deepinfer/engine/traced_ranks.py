"""Records what the engines of all worker processes do."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from deepinfer.engine.deferred_interrupt import DeferredInterrupt
from deepinfer.engine.parallel_runtime import ParallelRuntime
from deepinfer.errors import DeepInferError, WorkerFailedError
from deepinfer.profile.step_trace import StepTrace


@contextmanager
def traced_ranks(runtime: ParallelRuntime) -> Generator[StepTrace, None, None]:
    """As `traced_steps`, of every rank. Each begins and ends between two steps of its own."""
    trace, is_open = StepTrace(), False
    try:
        with DeferredInterrupt(lambda: True):  # else ranks that have begun would note what they do for ever
            answers = runtime.loop.ask_ranks("begin trace")
            refused = next((answer for answer in answers if isinstance(answer, DeepInferError)), None)
            is_open = refused is None
        if refused is not None:
            raise refused
        yield trace
    except WorkerFailedError:
        is_open = False  # what they have noted is lost
        raise
    finally:
        for rank, part in enumerate(runtime.loop.ask_ranks("end trace") if is_open else []):
            trace.modes = trace.modes or {**part.modes, "num_ranks": runtime.config.parallel.world_size}
            trace.num_lost += part.num_lost
            trace.spans += [replace(span, rank=rank) for span in part.spans]
