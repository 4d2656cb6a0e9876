"""The front end of an engine whose replicas run in worker processes: everything but the engines themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from deepinfer.config.engine_config import EngineConfig
from deepinfer.distributed.replica_balancer import ReplicaBalancer
from deepinfer.engine.input_processor import InputProcessor
from deepinfer.engine.model_files import ModelFiles
from deepinfer.engine.output_builder import OutputBuilder
from deepinfer.engine.prompt_encoder import PromptEncoder
from deepinfer.engine.replica_links import ReplicaLinks
from deepinfer.engine.replica_loop import ReplicaLoop
from deepinfer.engine.runtime import EngineRuntime
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.torchrun_world import TorchrunWorld
from deepinfer.engine.worker_pool import WorkerPool
from deepinfer.engine.worker_process import WorkerProcess
from deepinfer.engine.worker_ready import WorkerReady
from deepinfer.engine.worker_spec import WorkerSpec
from deepinfer.envs import EnvReport
from deepinfer.errors import UnsupportedFeatureError
from deepinfer.sampling_params import SamplingParams
from deepinfer.text.chat_defaults import ChatDefaults
from deepinfer.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ParallelRuntime:
    """The same parts for `LLM` as `EngineRuntime`. Made by `build`.

    Attributes:
        config: resolved options, as every worker has them.
        tokenizer, default_params, chat_defaults: of the checkpoint.
        loop: gives requests to the workers.
        encoder, inputs: prompt forms and request validation; seeds are derived here, so that no result depends on the
            number of replicas.
    """

    config: EngineConfig
    tokenizer: Tokenizer
    default_params: SamplingParams
    chat_defaults: ChatDefaults
    loop: ReplicaLoop
    encoder: PromptEncoder
    inputs: InputProcessor

    @classmethod
    def build(cls, config: EngineConfig, environment: EnvReport) -> ParallelRuntime:
        """Start the workers and wait until all are ready. Raises what `EngineRuntime.build` would."""
        files = ModelFiles.read(config, environment)
        config = replace(config, model=str(files.directory))
        pool = _started(config, environment, files.tokenizer)
        pool.wait_until_ready()
        ready = pool.ready[0]
        capacity = min(worker.limits.capacity_tokens for worker in pool.ready)
        limits = replace(ready.limits, capacity_tokens=capacity)
        return cls(
            config=ready.config,
            tokenizer=files.tokenizer,
            default_params=files.defaults.params,
            chat_defaults=files.defaults.chat,
            loop=_loop(pool, ready, capacity, files.tokenizer),
            encoder=PromptEncoder(files.tokenizer, files.num_valid_ids, files.model_config.image_token_id),
            inputs=InputProcessor(files.tokenizer, files.eos_token_ids, files.num_valid_ids, limits, config.seed),
        )

    @property
    def local(self) -> EngineRuntime:
        """UnsupportedFeatureError: what looks into an engine needs it in this process."""
        raise UnsupportedFeatureError(
            "capture() and replace() look into the engine's own process: build the LLM with data_parallel_size=1 and "
            "context_parallel_size=1 for them"
        )

    def stats(self) -> EngineStats:
        """Totals over all replicas."""
        return EngineStats.total(self.loop.ask_all("stats"))


def _store(config: EngineConfig, world: TorchrunWorld | None) -> TCPStore | None:
    """For ranks whose steps meet to find each other; none where none do."""
    if config.parallel.lockstep_size == 1:
        return None
    return TCPStore("127.0.0.1" if world is None else world.address, 0, is_master=True, wait_for_workers=False)


def _started(config: EngineConfig, environment: EnvReport, tokenizer: Tokenizer) -> WorkerPool:
    """All workers: those of a torchrun world, or as many new processes on this machine."""
    world, num_ranks = TorchrunWorld.find(), config.parallel.world_size
    if world is not None:
        world.require_size(num_ranks)
        if world.rank:
            raise SystemExit(world.serve())
    store = _store(config, world)
    workers: list[WorkerProcess] = []
    try:
        pipes = {} if world is None else world.accept()
        num_local = num_ranks if world is None else world.num_local
        address = None if store is None else (store.host, store.port)
        for rank in range(num_ranks):
            spec = WorkerSpec(rank, rank % num_local, num_local, config, environment, address)
            pipe = pipes.get(rank)
            workers.append(
                WorkerProcess.start(spec, tokenizer) if pipe is None else WorkerProcess.join(spec, pipe, tokenizer)
            )
    except BaseException:
        WorkerPool(workers).kill()
        raise
    return WorkerPool(workers, store)


def _loop(pool: WorkerPool, ready: WorkerReady, capacity: int, tokenizer: Tokenizer) -> ReplicaLoop:
    wakes_all = ready.config.parallel.lockstep_size > 1
    ranks = range(0, len(pool.workers), ready.config.parallel.context_parallel_size)
    links = ReplicaLinks(pool, list(ranks), wakes_all)
    seats = ready.config.scheduler.max_num_seqs
    balancer = ReplicaBalancer(links.num_replicas, cache_tokens=capacity, seats=seats)
    return ReplicaLoop(links, balancer, OutputBuilder(tokenizer, ready.modes))
