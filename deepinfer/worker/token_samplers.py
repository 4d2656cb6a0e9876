"""The sampler of a backend, and what it keeps of drafts that are to be judged by rejection."""

from __future__ import annotations

import torch

from deepinfer.config.engine_config import EngineConfig
from deepinfer.ops.select import SelectedBackend
from deepinfer.sampling.draft_memory import DraftMemory
from deepinfer.sampling.draft_pool import JUDGING_BYTES, DraftPool
from deepinfer.sampling.native_sampler import NativeSampler
from deepinfer.sampling.sampler import Sampler
from deepinfer.sampling.token_sampler import TokenSampler


def draft_pool(config: EngineConfig, backend: SelectedBackend, num_ids: int, device: torch.device) -> DraftPool | None:
    """Where a GPU keeps the distributions of drafts; None with other backends, and where no draft is judged by them."""
    num_drafts = config.speculative.num_drafts
    if backend.name != "cuda" or not num_drafts or config.speculative.acceptance != "rejection":
        return None
    return DraftPool(config.scheduler.max_num_seqs, num_drafts, num_ids, device)


def draft_pool_bytes(config: EngineConfig, vocab_size: int) -> int:
    """What `draft_pool` takes of a GPU once a request is not greedy, and what rows take to judge drafts by it."""
    num_drafts = config.speculative.num_drafts
    if not num_drafts or config.speculative.acceptance != "rejection":
        return 0
    return 4 * config.scheduler.max_num_seqs * num_drafts * vocab_size + JUDGING_BYTES


def draft_memory(config: EngineConfig, backend: SelectedBackend) -> DraftMemory | None:
    """The same for all other backends."""
    if backend.name == "cuda" or config.speculative.acceptance != "rejection":
        return None
    return DraftMemory(config.scheduler.max_num_seqs)


def token_sampler(
    backend: SelectedBackend, sampler: Sampler, device: torch.device, pool: DraftPool | None
) -> TokenSampler:
    """`sampler` with the short way that the backend has for plain rows, if it has one."""
    if backend.context is not None:
        return NativeSampler(sampler, backend.context)
    if backend.name != "cuda":
        return sampler
    # Not among the imports above: without a GPU no kernel is loaded.
    from deepinfer.sampling.cuda_sampler import CudaSampler

    return CudaSampler(sampler, device, pool)
