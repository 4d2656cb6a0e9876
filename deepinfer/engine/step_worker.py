"""What the engine needs of a worker."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan


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

    def execute(self, plan: StepPlan) -> LaunchedStep:
        """Run one step from beginning to end; it has ended then."""
        ...

    def launch_forward(self, plan: StepPlan) -> None:
        """Begin a step behind everything launched before. A linked plan goes on from what the step before it gives."""
        ...

    def launch_sample(self, plan: StepPlan) -> LaunchedStep:
        """End the step that was begun last, by its exact plan. Sequences released since get no token."""
        ...

    def take_part(self) -> None:
        """Begin a step that only other ranks have rows of: the collectives of its forward pass."""
        ...

    def skip_sample(self) -> None:
        """End the step that was begun last without a token: what of its second phase concerns other ranks."""
        ...

    def drain(self) -> None:
        """Wait until everything launched has ended; exceptions stay with their steps."""
        ...

    def current_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Sequence number and position, int64 [rows], of every row of the running step."""
        ...

    def close(self) -> None:
        """Give the model and the caches back."""
        ...
