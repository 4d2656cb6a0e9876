"""A model that runs chains of linked plans from static tensors, and its components on the same plans made exact."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.core.probe import Probe
from deepinfer.distributed.agreed_step import AgreedStep
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.worker.batch_builder import build_batch
from deepinfer.worker.kv_cache import allocate_caches, cache_table
from deepinfer.worker.scratch_plan import ScratchPlan
from deepinfer.worker.static_calls import StaticCalls
from deepinfer.worker.static_decoder import StaticDecoder
from tests.worker.decode_chains import (
    BLOCK_SIZE,
    BLOCKS,
    DRAFTS,
    LOOKBACK,
    SEQS,
    SIZES,
    first_plan,
    leave,
    linked_plan,
    outcome_of,
    resolved,
)


class LinkedModel:
    """Two sets of caches of one model, which has Engram n-grams of LOOKBACK + 1 tokens and drafts.

    Args:
        model: with at least MAX_LEN positions.
        kv_cache_dtype: of both caches.
        calls: runs the static decoder.
        agreed: its ranks' agreement; None: it has no peers.
    """

    def __init__(
        self, model: DeepSeekV41Model, kv_cache_dtype: str, calls: StaticCalls, agreed: AgreedStep | None = None
    ) -> None:
        runtime, self._device = model.runtime, model.embedding.device
        table = cache_table(runtime.config, runtime.numerics, kv_cache_dtype, BLOCK_SIZE, DRAFTS)
        sizes = (table, SEQS * BLOCKS, SEQS, self._device)
        self._model = model
        self._caches = allocate_caches(*sizes, has_spare_slot=False)
        self._static_caches = allocate_caches(*sizes, has_spare_slot=True)
        self.decoder = StaticDecoder(model, self._static_caches, SIZES, calls, agreed)

    def check_chain(self, seed: int, num_links: int) -> None:
        """Every row's hidden state and everything in the caches is the same, from step to step."""
        rng = np.random.default_rng(seed)
        plan = exact = first_plan(rng)
        for step in range(num_links + 1):
            if step:
                outcome = outcome_of(rng, exact)
                leave(outcome, self.decoder.outcome)
                plan = linked_plan(rng, exact)
                exact = resolved(plan, exact, outcome)
            hidden = self.decoder.forward(plan).hidden[: len(exact.token_ids)]
            assert torch.equal(hidden, self._components(exact)), (seed, step)
            self._check_caches()

    def _components(self, exact: ScratchPlan) -> torch.Tensor:
        batch = build_batch(exact, np.arange(len(exact.token_ids)), LOOKBACK + 1, self._device)
        return self._model.forward([batch], self._caches, Probe())

    def _check_caches(self) -> None:
        pools = zip(_tensors(self._caches), _tensors(self._static_caches), strict=True)
        assert all(torch.equal(mine, theirs[: len(mine)]) for mine, theirs in pools)


def _tensors(caches: object) -> list[torch.Tensor]:
    vectors = [cache.data for name in ("main", "index", "window") for cache in getattr(caches, name).values()]
    return vectors + list(caches.compressor.values())
