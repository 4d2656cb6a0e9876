"""One process or several: what runs an engine, by its options."""

from __future__ import annotations

from deepinfer.config.engine_config import EngineConfig
from deepinfer.engine.parallel_runtime import ParallelRuntime
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.envs import EnvReport


def build_runtime(config: EngineConfig, environment: EnvReport) -> EngineRuntime | ParallelRuntime:
    """The engine in this process, or workers with a front end here when the options ask for more than one rank."""
    if config.parallel.world_size == 1:
        return EngineRuntime.build(config, environment)
    return ParallelRuntime.build(config, environment)
