"""What a worker process is told first: who it is, and which engine it is part of."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.engine_config import EngineConfig
from deepinfer.envs import EnvReport


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Sent by the front end, read by the worker process.

    Attributes:
        rank: in the world of `config.parallel`.
        local_rank: among the workers of its machine; a GPU's index.
        num_local: workers of its machine, which share its cores.
        config: options of the engine, as given.
        environment: of the front end, which counts for all.
        store: address of the front end's store, where ranks whose steps meet find each other; None without such.
    """

    rank: int
    local_rank: int
    num_local: int
    config: EngineConfig
    environment: EnvReport
    store: tuple[str, int] | None = None
