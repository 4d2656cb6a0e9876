"""Attention over a private sliding window and shared compressed entries."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.models.deepseek_v41.compressor import Compressor
from deepinfer.models.deepseek_v41.indexer import Indexer
from deepinfer.models.deepseek_v41.rope import RopeTables
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader

# Decoded entries of one row chunk stay below this, whatever the step's size.
ENTRY_BYTES_PER_CHUNK = 64 * 2**20


class Attention:
    """One layer's attention (spec/model.md 4): MQA whose single vector is key and value.

    Depending on its plan the layer also compresses (KV source) and selects (index source).
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, ropes: RopeTables) -> None:
        self._runtime = runtime
        self._plan = plan
        self._rope = ropes.of(plan.ratio)
        self.wq_a = weights.fp8("wq_a")
        self.q_norm_weight = weights.plain("q_norm.weight")
        self.wq_b = weights.fp8("wq_b")
        self.wkv = weights.fp8("wkv")
        self.kv_norm_weight = weights.plain("kv_norm.weight")
        self.sink = weights.plain("attn_sink")
        self.wo_a = weights.fp8("wo_a")
        self.wo_b = weights.fp8("wo_b")
        self.compressor = Compressor(runtime, weights, plan, self._rope) if plan.owns_kv else None
        self.indexer = Indexer(runtime, weights, plan, self._rope) if plan.owns_index else None

    def __call__(self, x: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Output [T, D] for the normed input x [T, D]; reads and writes this layer's caches."""
        if self.compressor is not None:
            self.compressor(x, ctx)
        cos, sin = self._rope.at(ctx.batch.positions)
        q_lora = self._query_latent(x)
        if self.indexer is not None:
            self.indexer(x, q_lora, ctx)
        window_kv = self._window_vectors(x, cos, sin, ctx)
        out = self._attend(self._query(q_lora, cos, sin), window_kv, ctx)
        return self._project_out(self._runtime.ops.apply_rope(out, cos, sin, inverse=True))

    def _query_latent(self, x: torch.Tensor) -> torch.Tensor:
        """Normed low-rank query [T, q_lora_rank], shared with the indexer."""
        ops, act = self._runtime.ops, self._runtime.act_dtype
        latent = ops.quantized_linear(x, self.wq_a, quantize=self._runtime.quantize, out_dtype=act)
        return ops.rms_norm(latent, self.q_norm_weight, self._runtime.config.rms_norm_eps, act)

    def _query(self, q_lora: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotated query heads [T, H, d]."""
        config, ops = self._runtime.config, self._runtime.ops
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=self._runtime.act_dtype)
        return ops.apply_rope(q.view(-1, config.num_attention_heads, config.head_dim), cos, sin)

    def _window_vectors(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Key=value vectors float32 [M, d] of the step's window workspace; the ring keeps what later steps need."""
        ops, act = self._runtime.ops, self._runtime.act_dtype
        kv = ops.quantized_linear(x, self.wkv, quantize=self._runtime.quantize, out_dtype=act)
        kv = ops.rms_norm(kv, self.kv_norm_weight, self._runtime.config.rms_norm_eps, act)
        cache = ctx.caches.window[self._plan.layer_id]
        encoded = ops.encode_vectors(ops.apply_rope(kv, cos, sin), cache.format)
        workspace = ctx.window.gather(cache, encoded)
        ctx.window.kept[cache.num_entries].store(cache.data, encoded)
        return ops.decode_vectors(workspace, cache.format)

    def _attend(self, q: torch.Tensor, window_kv: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """One softmax over window, picked entries and sink; [T, H, d]."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        if self._plan.kv_source is None or self._plan.index_source is None:
            return ops.sparse_attention(
                q, window_kv, ctx.window.window_index, None, None, self.sink, scale=config.softmax_scale, out_dtype=act
            )
        cache = ctx.caches.main[self._plan.kv_source]
        entries = ctx.entries[self._plan.ratio]
        picks = ctx.picks[self._plan.index_source]
        chunk = max(1, ENTRY_BYTES_PER_CHUNK // (picks.shape[1] * config.head_dim * 4))
        parts = []
        for begin in range(0, max(q.shape[0], 1), chunk):
            rows = slice(begin, begin + chunk)
            vectors = ops.decode_vectors(entries.gather_rows(cache, picks[rows], rows), cache.format)
            parts.append(
                ops.sparse_attention(
                    q[rows],
                    window_kv,
                    ctx.window.window_index[rows],
                    vectors,
                    picks[rows] >= 0,
                    self.sink,
                    scale=config.softmax_scale,
                    out_dtype=act,
                )
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _project_out(self, out: torch.Tensor) -> torch.Tensor:
        """Grouped low-rank output projection [T, H, d] -> [T, D]."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        quantize = self._runtime.quantize
        groups = out.reshape(out.shape[0], config.o_groups, -1)
        low_rank = ops.grouped_linear(groups, self.wo_a, quantize=quantize, out_dtype=act)
        return ops.quantized_linear(low_rank, self.wo_b, quantize=quantize, out_dtype=act)
