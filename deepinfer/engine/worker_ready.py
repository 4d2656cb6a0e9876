"""What a worker process says once it can take requests."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.engine_config import EngineConfig
from deepinfer.engine.request_limits import RequestLimits
from deepinfer.engine.run_modes import RunModes


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """Filled by the worker process; the front end validates requests by it.

    Attributes:
        config: resolved options.
        limits: what a request must fit into.
        modes: the modes in force.
    """

    config: EngineConfig
    limits: RequestLimits
    modes: RunModes
