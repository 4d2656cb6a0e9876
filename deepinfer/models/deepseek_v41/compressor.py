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
        pooled = self._pool_single(x, entries.new_rows) if self.wgate is None else self._pool_pairs(x, self.wgate, ctx)
        ops, act, eps = self._runtime.ops, self._runtime.act_dtype, self._runtime.config.rms_norm_eps
        latent = ops.rms_norm(pooled, self.norm_weight, eps, act)
        cos, sin = self._rope.at(entries.new_entries * self._plan.ratio)

        key = ops.rms_norm(ops.linear(latent, self.wk, act), self.k_norm_weight, eps, act)
        index = ctx.caches.index[self._plan.layer_id]
        entries.store(index, ops.encode_vectors(ops.apply_rope(key, cos, sin), index.format))

        main = ctx.caches.main[self._plan.layer_id]
        entries.store(main, ops.encode_vectors(ops.apply_rope(latent, cos, sin), main.format))

    def _pool_single(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        x = x if rows.shape[0] == x.shape[0] else x[rows]
        return self._runtime.ops.linear(x, self.wkv, self._runtime.act_dtype)

    def _pool_pairs(self, x: torch.Tensor, wgate: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Gated sums [n, d] of the pairs that this step completes."""
        ops, batch = self._runtime.ops, ctx.batch
        state = ctx.caches.compressor[self._plan.layer_id]
        ring = state.shape[1]
        new = torch.stack((ops.linear(x, wgate, torch.float32), ops.linear(x, self.wkv, torch.float32)), dim=1)

        second = ctx.entries[self._plan.ratio].new_rows
        seq = batch.row_seq[second]
        position = batch.positions[second] - 1
        carried = state[batch.state_slots[seq], position % ring]
        in_step = (position >= batch.context_lens[seq])[:, None, None]
        first = torch.where(in_step, new[(second - 1).clamp(min=0)], carried)

        ctx.window.kept[ring].store(state, new)
        pair = torch.stack((first, new[second]), dim=2)  # [n, (score, value), token, d]
        return ops.compress_pairs(pair[:, 0], pair[:, 1]).to(self._runtime.act_dtype)
