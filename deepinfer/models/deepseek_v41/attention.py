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
        rope = ctx.rope(self._rope)
        q_lora = self.projections.query_latent(x)
        if self.indexer is not None:
            self.indexer(x, q_lora, ctx)
        window = self._window(x, ctx)
        heads = self._attend(self.projections.query(q_lora, rope), window, ctx)
        return self.projections.output(heads, rope)

    def _window(self, x: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Key=value vectors uint8 [M, bytes] that the step's windows lie in; the ring keeps what later steps need."""
        ring = ctx.caches.window[self._plan.layer_id]
        opened = ctx.window.open(ring)
        kv = ctx.gathered(self.projections.key_value(x))
        self.projections.store_key_value(kv, ctx.key_rope(self._rope), opened, ctx.window.where)
        ctx.window.close(ring, opened)
        return opened.data.flatten(0, 1)

    def _attend(self, q: torch.Tensor, window: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """One softmax over window, picked entries and sink; [T, H, d]."""
        plan, entries, picks = self._plan, None, None
        if plan.kv_source is not None and plan.index_source is not None:
            entries = ctx.entries[plan.ratio].of(ctx.caches.main[plan.kv_source])
            picks = ctx.picks[plan.index_source]
        return self._runtime.ops.sparse_attention(
            q,
            window,
            ctx.window.window_index,
            entries,
            picks,
            self.projections.sink,
            window_format=ctx.caches.window[plan.layer_id].format,
            scale=self._runtime.config.softmax_scale,
            out_dtype=self._runtime.act_dtype,
        )
