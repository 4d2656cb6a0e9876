"""Slow devices and slow hosts: both sleep now and then, outside the interpreter's lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

import deepinfer.worker.worker as worker_module
from deepinfer.core.device_stream import Launched
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.worker.thread_stream import ThreadStream

T = TypeVar("T")


class Delays:
    """Seconds that the device sleeps before each work, and the host around its books; changed by tests.

    Attributes:
        device, host: longest sleep; each is a random share of it.
        launched: works handed to streams since the start.
    """

    def __init__(self) -> None:
        self.device = self.host = 0.0
        self.launched = 0
        self._random = Random(7)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Engines that are built from now on obey."""
        delays = self

        class SlowStream(ThreadStream):
            def launch(self, work: Callable[[], T]) -> Launched[T]:
                delays.launched += 1
                seconds = delays._some(delays.device)
                return super().launch(lambda: (time.sleep(seconds), work())[1] if seconds else work())

        monkeypatch.setattr(worker_module, "ThreadStream", SlowStream)
        for name in ("_schedule", "_update"):
            plain = getattr(LLMEngine, name)

            def slow(*arguments: Any, plain: Callable[..., Any] = plain) -> Any:
                time.sleep(delays._some(delays.host))
                return plain(*arguments)

            monkeypatch.setattr(LLMEngine, name, slow)

    def _some(self, longest: float) -> float:
        return longest * self._random.random() if longest else 0.0
