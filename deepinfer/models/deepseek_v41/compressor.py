"""Compression of hidden states into key=value entries and index keys (C1 and C2)."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Compressor:
    """Writes the main entries and index keys of a KV source layer (spec/model.md 5).

    Ratio 1 turns every token into an entry; ratio 2 gates each aligned pair of tokens, keeping an unfinished pair's
    float32 (score, value) in the state ring.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, rope: RopeTable) -> None:
        self._runtime = runtime
        self._plan = plan
        self._rope = rope
        self.wkv = weights.plain("compressor.wkv.weight")
        self.wgate = weights.plain("compressor.wgate.weight") if plan.ratio > 1 else None
        self.norm_weight = weights.plain("compressor.norm.weight")
        self.wk = weights.plain("indexer.wk.weight")
        self.k_norm_weight = weights.plain("indexer.k_norm.weight")

    def __call__(self, x: torch.Tensor, ctx: StepContext) -> None:
        """Store the entries completed by the attention inputs x [T, D]."""
        entries = ctx.entries[self._plan.ratio]
        pooled = self._pool_single(x, ctx) if self.wgate is None else self._pool_pairs(x, self.wgate, ctx)
        ops, act, eps = self._runtime.ops, self._runtime.act_dtype, self._runtime.config.rms_norm_eps
        latent = ops.rms_norm(pooled, self.norm_weight, eps, act)
        keys = ops.linear(latent, self.wk, act)
        cos, sin = ctx.entry_rope(self._rope, self._plan.ratio)
        index, main = ctx.caches.index[self._plan.layer_id], ctx.caches.main[self._plan.layer_id]
        for cache, vectors, weight in ((index, keys, self.k_norm_weight), (main, latent, None)):
            where = (entries.new_blocks, entries.new_places)
            ops.store_vectors(vectors, weight, cos, sin, cache, *where, eps=eps, act_dtype=act)

    def _pool_single(self, x: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Values [n, d] of the rows whose entries are new."""
        rows, act = ctx.entries[self._plan.ratio].new_rows, self._runtime.act_dtype
        if ctx.share is not None:
            return ctx.gathered(self._runtime.ops.linear(x, self.wkv, act))[rows]
        x = x if rows.shape[0] == x.shape[0] else x[rows]
        return self._runtime.ops.linear(x, self.wkv, act)

    def _pool_pairs(self, x: torch.Tensor, wgate: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Gated sums [n, d] of the pairs that this step completes."""
        ops, entries = self._runtime.ops, ctx.entries[self._plan.ratio]
        state = ctx.caches.compressor[self._plan.layer_id]
        own = torch.stack((ops.linear(x, wgate, torch.float32), ops.linear(x, self.wkv, torch.float32)), dim=1)
        new = ctx.gathered(own)
        pooled = ops.compress_pairs(new, state, entries.new_rows, entries.carried, self._runtime.act_dtype)
        ctx.kept[state.shape[1]].store(state, new)
        return pooled
