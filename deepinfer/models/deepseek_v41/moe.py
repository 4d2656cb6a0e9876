"""Mixture of experts: router, routed FP4 experts, shared FP8 expert."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.draft_context import DraftContext
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class MoE:
    """Feed-forward sublayer (spec/model.md 8).

    Args:
        num_experts, num_picked: routed experts in all, and per token (draft stages have their own figures).
        name: record prefix, e.g. ``layers.3.ffn``.
    """

    def __init__(
        self, runtime: ModelRuntime, weights: WeightReader, num_experts: int, num_picked: int, name: str
    ) -> None:
        self._runtime = runtime
        self._num_picked = num_picked
        self._name = name
        self.gate_weight = weights.plain("gate.weight")
        self.gate_bias = weights.plain("gate.bias")
        self.w1 = weights.experts(num_experts, "w1")
        self.w3 = weights.experts(num_experts, "w3")
        self.w2 = weights.experts(num_experts, "w2")
        shared = weights.under("shared_experts")
        self.shared = (shared.fp8("w1"), shared.fp8("w3"), shared.fp8("w2"))

    def __call__(self, x: torch.Tensor, ctx: StepContext | DraftContext) -> torch.Tensor:
        """Output [T, D] for the normed input x [T, D]."""
        config, ops = self._runtime.config, self._runtime.ops
        picked = ops.route(
            x,
            self.gate_weight,
            self.gate_bias,
            top_k=self._num_picked,
            scaling=config.routed_scaling_factor,
            normalize=config.norm_topk_prob,
        )
        ctx.probe.record(f"{self._name}.experts", picked.ids)
        ctx.probe.record(f"{self._name}.weights", picked.weights)
        ctx.probe.record(f"{self._name}.margin", picked.margin)
        return ops.moe(
            x,
            picked.ids,
            picked.weights,
            self.w1,
            self.w3,
            self.w2,
            self.shared,
            limit=config.swiglu_limit,
            quantize=self._runtime.quantize,
            act_dtype=self._runtime.act_dtype,
        )
