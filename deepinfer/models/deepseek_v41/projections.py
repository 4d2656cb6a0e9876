"""The dense projections around attention, the same in target layers and draft stages."""

from __future__ import annotations

import torch

from deepinfer.core.cache_tensors import VectorCache
from deepinfer.models.deepseek_v41.rope import Rope
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

    def query(self, q_lora: torch.Tensor, rope: Rope) -> torch.Tensor:
        """Rotated query heads [T, H, d]; `rope` is (cos, sin) at the rows."""
        config, ops = self._runtime.config, self._runtime.ops
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=self._runtime.act_dtype)
        return ops.apply_rope(q.view(-1, config.num_attention_heads, config.head_dim), *rope)

    def key_value(self, x: torch.Tensor) -> torch.Tensor:
        """Key=value vectors [n, d] of inputs [n, D], before norm and rotation."""
        runtime = self._runtime
        return runtime.ops.quantized_linear(x, self.wkv, quantize=runtime.quantize, out_dtype=runtime.act_dtype)

    def store_key_value(
        self, kv: torch.Tensor, rope: Rope, cache: VectorCache, where: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        """Key=value vectors [n, d], normed, rotated and written to (units, places), both [n], of a cache."""
        runtime, act, eps = self._runtime, self._runtime.act_dtype, self._runtime.config.rms_norm_eps
        runtime.ops.store_vectors(kv, self.kv_norm_weight, *rope, cache, *where, eps=eps, act_dtype=act)

    def output(self, heads: torch.Tensor, rope: Rope) -> torch.Tensor:
        """[T, D] from attention outputs [T, H, d], rotated back to positions relative to the query."""
        ops, act, quantize = self._runtime.ops, self._runtime.act_dtype, self._runtime.quantize
        low_rank = ops.rotate_grouped_linear(
            heads, *rope, self.wo_a, num_groups=self._runtime.config.o_groups, quantize=quantize, out_dtype=act
        )
        return ops.quantized_linear(low_rank, self.wo_b, quantize=quantize, out_dtype=act)
