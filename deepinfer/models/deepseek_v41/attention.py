"""Attention over a private sliding window and shared compressed entries."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.models.deepseek_v41.compressor import Compressor
from deepinfer.models.deepseek_v41.indexer import Indexer
from deepinfer.models.deepseek_v41.projections import Projections
from deepinfer.models.deepseek_v41.rope import RopeTables
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader

# Decoded entries of one row chunk stay below this, whatever the step's size.
ENTRY_BYTES_PER_CHUNK = 64 * 2**20


class Attention:
    """One layer's attention (spec/model.md 4): MQA whose single vector is key and value.

    Depending on its plan the layer also selects (index source). A KV source's compressor is here, but the layer runs
    it before the attention: it works on every row, the attention of a consumer layer maybe on the kept ones only.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, ropes: RopeTables) -> None:
        self._runtime = runtime
        self._plan = plan
        self._rope = ropes.of(plan.ratio)
        self.projections = Projections(runtime, weights)
        self.compressor = Compressor(runtime, weights, plan, self._rope) if plan.owns_kv else None
        self.indexer = Indexer(runtime, weights, plan, self._rope) if plan.owns_index else None

    def __call__(self, x: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Output [T, D] for the normed input x [T, D]; reads and writes this layer's caches."""
        cos, sin = self._rope.at(ctx.batch.positions)
        q_lora = self.projections.query_latent(x)
        if self.indexer is not None:
            self.indexer(x, q_lora, ctx)
        window_kv = self._window_vectors(x, cos, sin, ctx)
        heads = self._attend(self.projections.query(q_lora, cos, sin), window_kv, ctx)
        return self.projections.output(heads, cos, sin)

    def _window_vectors(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Key=value vectors float32 [M, d] of the step's window workspace; the ring keeps what later steps need."""
        ops = self._runtime.ops
        cache = ctx.caches.window[self._plan.layer_id]
        encoded = ops.encode_vectors(self.projections.key_value(x, cos, sin), cache.format)
        workspace = ctx.window.gather(cache, encoded)
        ctx.window.kept[cache.num_entries].store(cache.data, encoded)
        return ops.decode_vectors(workspace, cache.format)

    def _attend(self, q: torch.Tensor, window_kv: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """One softmax over window, picked entries and sink; [T, H, d]."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        sink, scale = self.projections.sink, config.softmax_scale
        index = ctx.window.window_index
        if self._plan.kv_source is None or self._plan.index_source is None:
            return ops.sparse_attention(q, window_kv, index, None, None, sink, scale=scale, out_dtype=act)
        cache = ctx.caches.main[self._plan.kv_source]
        entries = ctx.entries[self._plan.ratio]
        picks = ctx.picks[self._plan.index_source]
        chunk = max(1, ENTRY_BYTES_PER_CHUNK // (picks.shape[1] * config.head_dim * 4))
        parts = []
        for begin in range(0, max(q.shape[0], 1), chunk):
            rows = slice(begin, begin + chunk)
            vectors = ops.decode_vectors(entries.gather_rows(cache, picks[rows], rows), cache.format)
            valid = picks[rows] >= 0
            parts.append(
                ops.sparse_attention(q[rows], window_kv, index[rows], vectors, valid, sink, scale=scale, out_dtype=act)
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)
