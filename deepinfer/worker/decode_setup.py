"""Whether and how an engine's decode steps run from static tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.parallel_config import ParallelConfig
from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.core.step_executor import StepExecutor
from deepinfer.logging import get_logger
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.token_sampler import TokenSampler
from deepinfer.worker.captured_calls import CapturedCalls
from deepinfer.worker.decode_buckets import DecodeBuckets
from deepinfer.worker.eager_calls import EagerCalls
from deepinfer.worker.exchange_scratch import exchange_bytes
from deepinfer.worker.gpu_scratch import LIBRARY_WORKSPACE, GpuScratch
from deepinfer.worker.static_calls import StaticCalls
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.static_executor import StaticExecutor

if TYPE_CHECKING:  # it loads kernels
    from deepinfer.worker.static_sampler import StaticSampler

logger = get_logger(__name__)

_GRAPH_BYTES = 8 << 20  # of one graph of some thousand kernels, outside the pool: the driver's copy of their launches


def decode_sizes(config: EngineConfig, model_config: DeepSeekV41Config) -> DecodeSizes:
    """Sizes of all decode steps; `config` is resolved."""
    scheduler, num_drafts = config.scheduler, config.speculative.num_drafts or 0
    assert scheduler.max_model_len is not None, "the engine config is not resolved"
    return DecodeSizes(
        max_num_seqs=scheduler.max_num_seqs,
        num_drafts=num_drafts,
        num_lookback=model_config.engram_max_ngram_size - 1 if model_config.has_engram else 0,
        max_len=scheduler.max_model_len,
        max_blocks=scheduler.max_num_seqs * -(-scheduler.max_model_len // config.cache.block_size),
    )


def graph_bytes(config: EngineConfig, model_config: DeepSeekV41Config) -> int:
    """Estimate of what CUDA graphs take in a GPU's memory: one pool for all, the matrix library's memory for the stream
    on which they are captured, and a little for each.

    A batch that drains meets every number of rows, with a forward pass and a sampling for each, and every number of
    sequences with a draft pass and, where a schedule says when drafts pay, with a forward pass that leaves the draft
    model no context; a rank that steps with others meets draft passes of theirs alone as well. Texts that grow past a
    bound of lengths meet more, which is rarely so for many rows.
    """
    if config.enforce_eager:
        return 0
    sizes = decode_sizes(config, model_config)
    buckets = DecodeBuckets.build(sizes, model_config.index_topk)
    num_graphs = 2 * len(buckets.rows)
    if sizes.num_drafts:
        num_graphs += len(buckets.seqs) * (2 if config.parallel.lockstep_size > 1 else 1)
        if config.speculative.curve_source is not None:
            num_graphs += len(buckets.seqs)
    return pool_bytes(config, model_config) + LIBRARY_WORKSPACE + _GRAPH_BYTES * num_graphs


def pool_bytes(config: EngineConfig, model_config: DeepSeekV41Config) -> int:
    """Size of the graphs' pool: what the largest decode step takes, of which a graph is one part.

    Every graph finds the pool empty, and all of it free again in one piece behind the graph before. With V logits a
    row the forward pass has none, sampling those of S * (1 + G) rows, a draft pass those of S * G and, while one draft
    follows another, three times those of S: fewer than the two sets of logits that a step is counted with.
    """
    sizes = decode_sizes(config, model_config)
    step = GpuScratch(model_config, sizes.max_rows, sizes.max_num_seqs, sizes.max_len, sizes.num_drafts)
    return step.num_graph_bytes + exchange_bytes(config.parallel, model_config, sizes.max_rows)


def static_decoder(config: EngineConfig, model: DeepSeekV41Model, caches: CacheTensors) -> StaticDecoder | None:
    """Runs decode steps from static tensors; None where they run component by component. `config` is resolved."""
    calls, groups = _static_calls(config, model), model.runtime.groups
    sizes = decode_sizes(config, model.runtime.config)
    if groups is None:
        return None if calls is None else StaticDecoder(model, caches, sizes, calls)
    reason = why_not_together(groups.sizes)
    if calls is not None and reason is not None:
        logger.info("decode steps run without static tensors: %s", reason)
    is_ready = calls is not None and reason is None
    all_ready = groups.lockstep.gather_numbers([is_ready]).all()
    if calls is None or not all_ready:
        return None
    return StaticDecoder(model, caches, sizes, calls, groups.step)


def why_not_together(sizes: ParallelConfig) -> str | None:
    """Why decode steps of ranks in lockstep run component by component; None where they need not."""
    if sizes.context_parallel_size > 1:
        return "the ranks of a replica get their plans from its first (context_parallel_size)"
    return None


def static_sampler(
    config: EngineConfig,
    model: DeepSeekV41Model,
    caches: CacheTensors,
    target: StepExecutor,
    sampler: TokenSampler,
) -> StaticSampler | None:
    """Ends decode steps whose forward pass `target` runs from static tensors; None where it does not, or where the
    backend's sampler needs the host.
    """
    if not isinstance(target, StaticExecutor) or isinstance(sampler, Sampler):
        return None
    # Not among the imports above: without a GPU no kernel is loaded.
    from deepinfer.sampling.cuda_sampler import CudaSampler
    from deepinfer.sampling.step_sampler import StepSampler
    from deepinfer.worker.static_sampler import StaticSampler
    from deepinfer.worker.step_drafter import StepDrafter

    assert isinstance(sampler, CudaSampler)
    drafter, num_drafts, max_len = None, config.speculative.num_drafts or 0, config.scheduler.max_model_len
    if model.draft is not None:
        assert max_len is not None, "the engine config is not resolved"
        drafter = StepDrafter(
            model.draft,
            caches,
            StepSampler(sampler.num_ids, sampler.pool),
            config.speculative.confidence_temperatures(num_drafts),
            max_len,
            model.embedding.device,
        )
    return StaticSampler(target, sampler, drafter)


def _static_calls(config: EngineConfig, model: DeepSeekV41Model) -> StaticCalls | None:
    device = model.embedding.device
    if device.type != "cuda" or config.backend != "cuda":
        return None
    reason = _why_not_static(config, model)
    if reason is not None:
        logger.info("decode steps run without static tensors: %s", reason)
        return None
    if config.enforce_eager:
        return EagerCalls()
    return CapturedCalls(device, pool_bytes(config, model.runtime.config))


def _why_not_static(config: EngineConfig, model: DeepSeekV41Model) -> str | None:
    # Not among the imports above: without a GPU no kernel is loaded.
    from deepinfer.ops.cuda.static_support import why_not_static
    from tilelang_ops.jit.arch import arch_of

    for layer in model.layers:
        if layer.engram is not None and not _is_readable(layer.engram.table):
            return "the host gathers the rows of Engram tables (engram_storage)"
    arch = arch_of(model.embedding.device)
    return why_not_static(model.runtime.config, config.numerics, config.cache.kv_cache_dtype, arch)


def _is_readable(table: torch.Tensor) -> bool:
    return table.is_cuda or table.is_pinned()
