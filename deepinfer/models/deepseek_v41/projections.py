"""The dense projections around attention, the same in target layers and draft stages."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Projections:
    """Low-rank query, shared key=value vector, grouped output (spec/model.md 4.1 and 4.5)."""

    def __init__(self, runtime: ModelRuntime, weights: WeightReader) -> None:
        self._runtime = runtime
        self.wq_a = weights.fp8("wq_a")
        self.q_norm_weight = weights.plain("q_norm.weight")
        self.wq_b = weights.fp8("wq_b")
        self.wkv = weights.fp8("wkv")
        self.kv_norm_weight = weights.plain("kv_norm.weight")
        self.sink = weights.plain("attn_sink")
        self.wo_a = weights.fp8("wo_a")
        self.wo_b = weights.fp8("wo_b")

    def query_latent(self, x: torch.Tensor) -> torch.Tensor:
        """Normed low-rank query [T, q_lora_rank] of inputs [T, D]."""
        ops, act = self._runtime.ops, self._runtime.act_dtype
        latent = ops.quantized_linear(x, self.wq_a, quantize=self._runtime.quantize, out_dtype=act)
        return ops.rms_norm(latent, self.q_norm_weight, self._runtime.config.rms_norm_eps, act)

    def query(self, q_lora: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotated query heads [T, H, d]."""
        config, ops = self._runtime.config, self._runtime.ops
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=self._runtime.act_dtype)
        return ops.apply_rope(q.view(-1, config.num_attention_heads, config.head_dim), cos, sin)

    def key_value(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotated key=value vectors [T, d]."""
        ops, act = self._runtime.ops, self._runtime.act_dtype
        kv = ops.quantized_linear(x, self.wkv, quantize=self._runtime.quantize, out_dtype=act)
        kv = ops.rms_norm(kv, self.kv_norm_weight, self._runtime.config.rms_norm_eps, act)
        return ops.apply_rope(kv, cos, sin)

    def output(self, heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """[T, D] from attention outputs [T, H, d], rotated back to positions relative to the query."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        heads = ops.apply_rope(heads, cos, sin, inverse=True)
        groups = heads.reshape(heads.shape[0], config.o_groups, -1)
        low_rank = ops.grouped_linear(groups, self.wo_a, quantize=self._runtime.quantize, out_dtype=act)
        return ops.quantized_linear(low_rank, self.wo_b, quantize=self._runtime.quantize, out_dtype=act)
