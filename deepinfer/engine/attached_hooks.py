"""Research hooks of the forward pass: they come and go between steps, never in the middle of one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.tap import Tap
from deepinfer.logging import get_logger

logger = get_logger(__name__)


@contextmanager
def captured(runtime: EngineRuntime, patterns: tuple[str, ...]) -> Generator[Tap, None, None]:
    """Names that match one of the shell-style patterns are recorded inside the block; see `LLM.capture`."""
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        message = f"capture() needs at least one name or pattern such as 'layers.*.ffn.experts', not {patterns!r}"
        raise TypeError(message)
    probe, tap = runtime.worker.probe, Tap(runtime.worker.current_rows, runtime.engine.request_id_of)
    with runtime.loop.between_steps():
        probe.attach(patterns, tap)
    try:
        yield tap
    finally:
        with runtime.loop.between_steps():
            probe.detach(tap)
    for pattern in tap.unmatched(patterns):
        logger.warning("capture: nothing recorded matches %r; recorded: %s", pattern, ", ".join(tap.names()[:8]))


@contextmanager
def replaced(runtime: EngineRuntime, point: str, function: Callable[..., Any]) -> Generator[None, None, None]:
    """Inside the block `function` stands for the component `point`; see `LLM.replace`."""
    if not isinstance(point, str) or not callable(function):
        raise TypeError(f"replace() takes a component's name and a function, not {point!r} and {function!r}")
    probe = runtime.worker.probe
    with runtime.loop.between_steps():
        probe.replace(point, function)
    try:
        yield
    finally:
        with runtime.loop.between_steps():
            probe.restore(point, function)
