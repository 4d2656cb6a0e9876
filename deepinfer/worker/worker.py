"""One worker: a device with the model, the caches and the runner on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
import torch

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import CacheSpec
from deepinfer.core.device_stream import DeviceStream, Launched
from deepinfer.core.engine_request import EngineRequest
from deepinfer.core.launched_step import LaunchedStep
from deepinfer.core.probe import Probe
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import StepResult
from deepinfer.distributed.rank_groups import RankGroups
from deepinfer.errors import EngineClosedError
from deepinfer.logging import get_logger
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.ops.select import SelectedBackend
from deepinfer.sampling.sampler import Sampler
from deepinfer.worker.cuda_stream import CudaStream
from deepinfer.worker.decode_setup import decode_sizes, graph_bytes
from deepinfer.worker.device import memory_probe, resolve_device
from deepinfer.worker.exchange_scratch import exchange_bytes, spread_bytes
from deepinfer.worker.gpu_scratch import GpuScratch
from deepinfer.worker.host_memory import resident_bytes
from deepinfer.worker.inline_stream import InlineStream
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from deepinfer.worker.load_options import LoadOptions
from deepinfer.worker.memory import MemoryDemand, plan_memory
from deepinfer.worker.memory_plan import MemoryPlan
from deepinfer.worker.model_loader import load_model
from deepinfer.worker.model_runner import ModelRunner, PendingResult
from deepinfer.worker.model_shape import model_shape
from deepinfer.worker.native_scratch import NativeScratch
from deepinfer.worker.pinned_torch import pinned_torch
from deepinfer.worker.reference_scratch import ReferenceScratch
from deepinfer.worker.replace_points import replace_points
from deepinfer.worker.step_parts import StepParts
from deepinfer.worker.step_profiler import ScratchSpace, StepProfiler
from deepinfer.worker.step_scratch import StepScratch
from deepinfer.worker.thread_stream import ThreadStream
from deepinfer.worker.token_samplers import draft_pool_bytes

T = TypeVar("T")

logger = get_logger(__name__)

_SCRATCH: dict[str, Callable[..., StepScratch]] = {
    "cpu": NativeScratch,
    "cuda": GpuScratch,
    "reference": ReferenceScratch,
}


class Worker:
    """Executes step plans. Owns everything that lives on its device.

    Attributes:
        model: its weights; None once closed.
        probe: research hooks.
        backend: its ops, and the context of native code; None once closed.

    Args:
        config: resolved engine config (`EngineConfig.resolve`).
        model_config: the checkpoint's config.
        directory: checkpoint directory.
        backend: the chosen ops.
        num_valid_ids: ids the tokenizer has.
        eos_token_ids: ids that `first_n_token_no_eos` bans.
        groups: the ranks that share parts of the model; None for one rank.
    """

    backend: SelectedBackend | None
    model: DeepSeekV41Model | None
    _runner: ModelRunner | None
    _plan: StepPlan | None = None  # of the running step
    _forward: Launched[None]  # of the newest step

    @pinned_torch()
    def __init__(
        self,
        config: EngineConfig,
        model_config: DeepSeekV41Config,
        directory: Path,
        backend: SelectedBackend,
        num_valid_ids: int,
        eos_token_ids: tuple[int, ...],
        groups: RankGroups | None = None,
    ) -> None:
        self.probe = Probe(replace_points(model_config))
        self.backend = backend
        self._num_threads = config.num_threads or 1
        self.device = device = resolve_device(config.device, backend.name)
        self._stream = _stream(device, bool(config.overlap) and backend.name == "cpu" and groups is None)
        max_len = config.scheduler.max_model_len
        assert max_len is not None, "the engine config is not resolved"
        num_drafts = config.speculative.num_drafts or 0
        model = _load_model(config, model_config, directory, (backend, device), groups)
        dtype, block_size = config.cache.kv_cache_dtype, config.cache.block_size
        table = cache_table(model_config, config.numerics, dtype, block_size, num_drafts)
        self.model_shape = model_shape(model_config, config.numerics, table, num_drafts)
        plan = _plan_memory(config, model_config, table, (device, backend.name))
        self.memory_plan = plan = plan if groups is None else _shared_plan(plan, groups)
        logger.info("caches on %s:\n  %s", device, plan.explain().replace("\n", "\n  "))
        caches = allocate_caches(table, plan.num_blocks, plan.num_slots, device)
        parts = StepParts.build(config, backend, (model, caches), Sampler(num_valid_ids, eos_token_ids), self.probe)
        self.profiler: StepProfiler | None = None
        if parts.executors.draft is not None:
            space = _scratch_space(plan, max_len, model_config)
            target, draft = parts.executors.target, parts.executors.draft
            self.profiler = StepProfiler(target, draft, space, num_drafts, device, parts.static)
        self.model = model
        self._runner = parts.runner

    def add_request(self, request: EngineRequest) -> None:
        """Make a sequence known before the first plan that names it."""
        runner = self._live()
        self._stream.call(lambda: runner.add(request))

    def release(self, seq_ids: list[int]) -> None:
        """Forget ended sequences, behind what is launched; unknown ones are ignored."""
        runner, ended = self._runner, list(seq_ids)
        if runner is not None and ended:
            self._stream.launch(lambda: runner.release(ended))

    def execute(self, plan: StepPlan) -> LaunchedStep:
        """Run one step from beginning to end; it has ended then."""
        self.launch_forward(plan)
        step = self.launch_sample(plan)
        step.wait()
        return step

    def launch_forward(self, plan: StepPlan) -> None:
        """Hand the first phase of a step to the device, behind everything launched before."""
        runner = self._live()
        self._plan = plan
        self._forward = self._launch(lambda: runner.forward(plan), runner.forwards_natively(plan))

    def launch_sample(self, plan: StepPlan) -> LaunchedStep:
        """Hand the second phase of the step to the device of which the first was launched last."""
        runner = self._live()
        natively, forward = runner.samples_natively(plan), self._forward

        def work() -> StepResult | PendingResult:
            if forward.failed:
                forward.wait()  # raises why there is nothing to sample from
            return runner.sample(plan, natively)

        sample = self._launch(work, natively)
        return LaunchedStep(forward, cast("Launched[StepResult]", sample))  # waiting fetches a pending one

    def take_part(self) -> None:
        """Launch the forward pass of a step that only other ranks have rows of; no request is touched."""
        runner = self._live()
        self._launch(runner.take_part, False)

    def skip_sample(self) -> None:
        """Launch what other ranks need of the second phase of the step that was begun last, which gives nobody here a
        token.
        """
        runner = self._live()
        self._launch(runner.skip_sample, False)

    def drain(self) -> None:
        """Wait until the device has done everything launched; exceptions stay with their steps."""
        self._stream.drain()

    def current_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Sequence number and position, int64 [T] each, of every row of the running step; no rows before the first."""
        if self._plan is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        plan = self._plan
        return np.repeat(plan.seq_ids, np.diff(plan.cu_seqlens_q)), plan.positions.astype(np.int64)

    def close(self) -> None:
        """Give model and caches back, behind what is launched; idempotent."""
        try:
            self._stream.close()
        finally:
            self._runner = self.profiler = self.model = self.backend = None
            if self.device.type == "cuda":
                torch.cuda.empty_cache()  # torch would keep it, and memory plans ask the driver what is free

    def _launch(self, work: Callable[[], T], natively: bool) -> Launched[T]:
        """Native work leaves torch alone and runs wherever the stream wants. All other runs on the caller's thread,
        while the calling program's torch settings are set aside.
        """
        if natively:
            return self._stream.launch(work)
        with pinned_torch(self._num_threads):
            return self._stream.call(work)

    def _live(self) -> ModelRunner:
        if self._runner is None:
            raise EngineClosedError("this worker is closed")
        return self._runner


def _load_model(
    config: EngineConfig,
    model_config: DeepSeekV41Config,
    directory: Path,
    place: tuple[SelectedBackend, torch.device],
    groups: RankGroups | None,
) -> DeepSeekV41Model:
    assert config.scheduler.max_model_len is not None, "the engine config is not resolved"
    (backend, device), max_len = place, config.scheduler.max_model_len
    runtime = ModelRuntime(model_config, backend.ops, config.numerics, max_len, config.yoco.mode, groups)
    with_drafts = config.speculative.num_drafts is not None
    return load_model(runtime, directory, device, LoadOptions(config.load_format, with_drafts, config.engram_storage))


def _stream(device: torch.device, has_thread: bool) -> DeviceStream:
    if device.type == "cuda":
        return CudaStream(device)
    return ThreadStream() if has_thread else InlineStream()


def _plan_memory(
    config: EngineConfig, model_config: DeepSeekV41Config, table: tuple[CacheSpec, ...], place: tuple[torch.device, str]
) -> MemoryPlan:
    """Sizes of the caches on `place`, a device and its backend.

    They stand beside a step's scratch, and on a CPU beside what the process holds by now, weights included.
    """
    options = config.scheduler
    assert options.max_model_len and options.max_num_batched_tokens, "the engine config is not resolved"
    device, backend = place
    is_cpu = device.type == "cpu"
    rows = options.max_num_batched_tokens
    sizes = (rows, min(options.max_num_seqs, rows), options.max_model_len, config.speculative.num_drafts or 0)
    scratch = _SCRATCH[backend](model_config, *sizes).num_bytes
    if not is_cpu and backend == "cuda":
        max_rows = decode_sizes(config, model_config).max_rows
        decoding = exchange_bytes(config.parallel, model_config, max_rows)
        scratch += graph_bytes(config, model_config) + max(decoding, spread_bytes(config.parallel, model_config, rows))
        scratch += draft_pool_bytes(config, model_config.vocab_size)
    resident = resident_bytes() if is_cpu else 0
    ranks = config.parallel.world_size
    demand = MemoryDemand(table, options.max_num_seqs, options.max_model_len, is_cpu, resident, scratch, ranks)
    return plan_memory(demand, config.cache, memory_probe(device))


def _shared_plan(plan: MemoryPlan, groups: RankGroups) -> MemoryPlan:
    """The least of what the ranks of a replica have: a plan's blocks and slots have to be there on all of them."""
    if groups.context is None:
        return plan
    blocks, slots = groups.context.gather_numbers([plan.num_blocks, plan.num_slots]).min(0).tolist()
    return replace(plan, num_blocks=blocks, num_slots=slots)


def _scratch_space(plan: MemoryPlan, max_len: int, config: DeepSeekV41Config) -> ScratchSpace:
    return ScratchSpace(
        num_blocks=plan.num_blocks,
        num_slots=plan.num_slots,
        block_size=plan.block_size,
        max_model_len=max_len,
        context_len=config.sliding_window,
        num_lookback=config.engram_max_ngram_size - 1 if config.has_engram else 0,
    )
