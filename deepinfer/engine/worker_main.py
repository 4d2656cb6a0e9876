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
from deepinfer.errors import ConfigError, PeerLostError
from deepinfer.logging import set_level, show_by_default
from deepinfer.ops.cuda.availability import cuda_unavailable
from deepinfer.worker.cpu_threads import usable_cores
from deepinfer.worker.device import resolve_device

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
    if config.device.startswith("cuda"):
        torch.cuda.set_device(resolve_device(config.device, config.backend))  # kernels and collectives go there
    runtime = EngineRuntime.build(config, spec.environment, groups=_groups(spec, config))
    wire.tokenizer = runtime.tokenizer
    wire.send(WorkerReport("ready", WorkerReady(runtime.config, runtime.limits, runtime.modes)))
    ReplicaServer(runtime, commands, wire).run()


def _groups(spec: WorkerSpec, config: EngineConfig) -> RankGroups | None:
    """None for a rank whose steps meet nobody's."""
    if spec.store is None:
        return None
    device = torch.device(config.device.replace("auto", "cpu"))
    join_world(spec.store, spec.rank, config.parallel.world_size, device)
    return RankGroups.join(config.parallel, spec.rank, device)


def _own_config(spec: WorkerSpec) -> EngineConfig:
    """The options with this worker's own GPU. ConfigError where ranks that meet would have to share one."""
    config = spec.config
    own = f"cuda:{spec.local_rank}"
    uses_kernels = config.backend in ("auto", "cuda") and cuda_unavailable("cuda") is None
    if config.device == "cuda" or (config.device == "auto" and uses_kernels):
        if torch.cuda.is_available() and spec.local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"{spec.num_local} ranks on a machine of {torch.cuda.device_count()} GPUs, and each takes one: use as "
                "many ranks as GPUs at most"
            )
        return replace(config, device=own)
    if spec.store is not None and config.device.startswith("cuda") and config.device != own:
        raise ConfigError(
            f"device = {config.device!r} for {config.parallel.world_size} ranks: each needs a GPU of its own; use "
            "device='cuda'"
        )
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
