"""A step that was handed to its device."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.core.device_stream import Launched
from deepinfer.core.step_result import StepResult


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """Both phases of a step. Filled by the worker, waited for by the engine.

    Attributes:
        forward: the forward pass.
        sample: prompt scores, new tokens and drafts behind them.
    """

    forward: Launched[None]
    sample: Launched[StepResult]

    @property
    def done(self) -> bool:
        """Whether `wait` would not wait."""
        return self.sample.done

    @property
    def failed(self) -> bool:
        """Whether one of its phases has ended with an exception."""
        return self.forward.failed or self.sample.failed

    @property
    def lost(self) -> bool:
        """Whether it never ends; see `Launched`."""
        return self.sample.lost

    def wait(self) -> StepResult:
        """The step's outcome, or the first exception that one of its phases raised. May be repeated."""
        self.forward.wait()
        return self.sample.wait()
