"""A worker process from beginning to end: ``python -m deepinfer.worker <file descriptor of its pipe>``."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final

import torch

from deepinfer.config.engine_config import EngineConfig
from deepinfer.distributed.rank_groups import RankGroups, join_world
from deepinfer.engine.command_queue import CommandQueue
from deepinfer.engine.replica_server import ReplicaServer
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.wire import Wire
from deepinfer.engine.worker_failure import WorkerFailure
from deepinfer.engine.worker_ready import WorkerReady
from deepinfer.engine.worker_report import WorkerReport
from deepinfer.engine.worker_spec import WorkerSpec
from deepinfer.errors import PeerLostError
from deepinfer.logging import set_level, show_by_default
from deepinfer.ops.cuda.availability import cuda_unavailable
from deepinfer.worker.cpu_threads import usable_cores

_FAILED: Final = 1  # exit code
_CLOSE_SECONDS: Final = 0.5  # between the first and the last rank that hear of the end


def worker_main(arguments: list[str]) -> None:
    """Serve the front end at the other end of the pipe; ends the process."""
    wire = Wire(Connection(int(arguments[0])))
    spec: WorkerSpec = wire.receive()
    commands = CommandQueue(wire)
    try:
        _serve(spec, wire, commands)
    except BaseException as error:
        # A rank that hears of the end first leaves the others' collectives.
        if not commands.is_closing(_CLOSE_SECONDS if isinstance(error, PeerLostError) else 0.0):
            _tell(wire, WorkerFailure.of(spec.rank, error))
            _end(_FAILED)
    _end(0)


def _serve(spec: WorkerSpec, wire: Wire, commands: CommandQueue) -> None:
    show_by_default()
    if "log_level" in spec.environment.settings:
        set_level(spec.environment.settings["log_level"])
    elif spec.rank:
        set_level("warn")  # one worker tells for all
    torch.set_num_threads(max(1, usable_cores() // spec.num_local))
    config = _own_config(spec)
    runtime = EngineRuntime.build(config, spec.environment, groups=_groups(spec, config))
    wire.tokenizer = runtime.tokenizer
    wire.send(WorkerReport("ready", WorkerReady(runtime.config, runtime.limits, runtime.modes)))
    ReplicaServer(runtime.engine, commands, wire).run()


def _groups(spec: WorkerSpec, config: EngineConfig) -> RankGroups | None:
    """None for a rank whose steps meet nobody's."""
    if spec.store is None:
        return None
    join_world(spec.store, spec.rank, config.parallel.world_size, torch.device(config.device.replace("auto", "cpu")))
    return RankGroups.join(config.parallel, spec.rank)


def _own_config(spec: WorkerSpec) -> EngineConfig:
    """The options with this worker's own GPU."""
    config = spec.config
    if config.device in ("auto", "cuda") and config.backend in ("auto", "cuda") and cuda_unavailable("cuda") is None:
        config = replace(config, device=f"cuda:{spec.local_rank}")
    return config


def _tell(wire: Wire, failure: WorkerFailure) -> None:
    try:
        wire.send(WorkerReport("failed", failure))
    except OSError:
        sys.stderr.write(failure.trace)  # nobody else is left to say it


def _end(code: int) -> None:
    """At once: other threads may wait for a device or for ranks that are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
