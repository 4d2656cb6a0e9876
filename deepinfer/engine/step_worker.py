"""What the engine needs of a worker."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import StepResult


class StepWorker(Protocol):
    """Implemented by `worker.worker.Worker`; tests hand in a table."""

    @property
    def probe(self) -> Probe:
        """Research hooks of the forward pass."""
        ...

    def add_request(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it. May raise RequestError."""
        ...

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences."""
        ...

    def execute(self, plan: StepPlan) -> StepResult:
        """Run one step."""
        ...

    def current_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Sequence number and position, int64 [rows], of every row of the running step."""
        ...

    def close(self) -> None:
        """Give the model and the caches back."""
        ...
