"""Mixture of experts: router, routed FP4 experts, shared FP8 expert."""

from __future__ import annotations

import torch

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.core.route_result import RouteResult
from deepinfer.distributed.expert_exchange import ExpertExchange
from deepinfer.distributed.in_flight import Turns
from deepinfer.distributed.row_packing import RowPacking
from deepinfer.distributed.take_turns import take_turns
from deepinfer.models.deepseek_v41.draft_context import DraftContext
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader

_Shared = tuple[QuantizedWeight, QuantizedWeight, QuantizedWeight]


class MoE:
    """Feed-forward sublayer (spec/model.md 8).

    Args:
        num_experts, num_picked: routed experts in all, and per token (draft stages have their own figures). With
            `runtime.groups` this rank reads and computes those in its places alone.
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
        self.exchange = None if runtime.groups is None else runtime.groups.expert_exchange(num_experts)
        own = list(range(num_experts)) if self.exchange is None else self.exchange.own_experts
        self.own_experts = own
        self.w1 = weights.experts(own, "w1")
        self.w3 = weights.experts(own, "w3")
        self.w2 = weights.experts(own, "w2")
        if self.exchange is not None:
            stacks = (self.w1, self.w3, self.w2)
            self.exchange.weights = tuple(part for stack in stacks for part in (stack.codes, stack.scales))
        shared = weights.under("shared_experts")
        self.shared = (shared.fp8("w1"), shared.fp8("w3"), shared.fp8("w2"))

    def __call__(self, x: torch.Tensor, ctx: StepContext | DraftContext) -> torch.Tensor:
        """Output [T, D] for the normed input x [T, D]."""
        if self.exchange is not None:
            return take_turns([self._spread(self.exchange, x, ctx)])[0]
        picked = self._route(x, ctx)
        return self._moe(x, picked.ids, picked.weights, self.shared)

    def in_turns(self, x: torch.Tensor, ctx: StepContext | DraftContext) -> Turns[torch.Tensor]:
        """The same, step by step where other ranks have experts."""
        if self.exchange is None:
            out: torch.Tensor = ctx.probe.call(self._name, self, x, ctx)
            return out
        return (yield from self._spread(self.exchange, x, ctx))

    def take_part(self) -> Turns[None]:
        """Compute what other ranks send, in a step of which this rank has no rows. Nothing with experts of its own."""
        if self.exchange is not None:
            device = self.gate_weight.device
            x = torch.empty((0, self._runtime.config.hidden_size), dtype=self._runtime.act_dtype, device=device)
            ids = torch.empty((0, self._num_picked), dtype=torch.int64, device=device)
            targets, weights = self.exchange.begin(ids), torch.empty(ids.shape, device=device)
            yield from self.exchange.run(targets, x, weights, self._packing, self._moe)

    def _route(self, x: torch.Tensor, ctx: StepContext | DraftContext) -> RouteResult:
        config = self._runtime.config
        picked = self._runtime.ops.route(
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
        return picked

    def _spread(
        self, exchange: ExpertExchange, x: torch.Tensor, ctx: StepContext | DraftContext
    ) -> Turns[torch.Tensor]:
        """Outputs [T, D], of experts wherever they lie. The shared one is computed while ranks tell each other how many
        rows will come, where they have to.
        """
        picked = self._route(x, ctx)
        if ctx.is_real is not None:
            rows = (x, picked.ids, picked.weights)
            parts = exchange.static.run(rows, ctx.is_real, self._moe)
            return self._runtime.ops.sum_experts(parts, self._shared(x))
        targets = exchange.begin(picked.ids)
        shared = self._shared(x)
        parts = yield from exchange.run(targets, x, picked.weights, self._packing, self._moe)
        return self._runtime.ops.sum_experts(parts, shared)

    def _shared(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs [T, D] of the shared expert."""
        none = torch.empty((x.shape[0], 0), dtype=torch.int64, device=x.device)
        return self._moe(x, none, torch.empty(none.shape, device=x.device), self.shared)

    @property
    def _packing(self) -> RowPacking:
        runtime = self._runtime
        return RowPacking(runtime.config.hidden_size, runtime.quantize, runtime.act_dtype)

    def _moe(
        self,
        x: torch.Tensor,
        ids: torch.Tensor,
        weights: torch.Tensor,
        shared: _Shared | None = None,
        likely: int | None = None,
    ) -> torch.Tensor:
        """`Ops.moe` with the experts of this rank, by place."""
        return self._runtime.ops.moe(
            x,
            ids,
            weights,
            self.w1,
            self.w3,
            self.w2,
            shared,
            limit=self._runtime.config.swiglu_limit,
            quantize=self._runtime.quantize,
            act_dtype=self._runtime.act_dtype,
            likely=likely,
        )
