"""One transformer layer: Engram if it has one, attention, MoE, each behind hyper-connections."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.distributed.in_flight import Turns
from deepinfer.models.deepseek_v41.attention import Attention
from deepinfer.models.deepseek_v41.engram import Engram
from deepinfer.models.deepseek_v41.hyper_connection import HyperConnection, Mixing
from deepinfer.models.deepseek_v41.moe import MoE
from deepinfer.models.deepseek_v41.rope import RopeTables
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Layer:
    """Layer `plan.layer_id` of the target model (order of operations: spec/model.md 3).

    Without drafts nothing is kept for a draft model.
    """

    def __init__(
        self,
        runtime: ModelRuntime,
        weights: WeightReader,
        plan: LayerPlan,
        ropes: RopeTables,
        compressed_vocab: torch.Tensor | None,
        with_drafts: bool,
    ) -> None:
        config = runtime.config
        self.name = f"layers.{plan.layer_id}"
        self._runtime = runtime
        self._layer_id = plan.layer_id
        self._is_boundary = plan.layer_id == config.n_prefill_layer
        self._is_draft_target = with_drafts and plan.layer_id in config.dspark_target_layer_ids
        self.attn_hc = HyperConnection(runtime, weights, "attn")
        self.attention = Attention(runtime, weights.under("attn"), plan, ropes)
        self.ffn_hc = HyperConnection(runtime, weights, "ffn")
        self.moe = MoE(
            runtime, weights.under("ffn"), config.n_routed_experts, config.num_experts_per_tok, f"{self.name}.ffn"
        )
        self.engram: Engram | None = None
        if plan.engram_index is not None:
            assert compressed_vocab is not None
            self.engram = Engram(runtime, weights.under("engram"), plan.layer_id, compressed_vocab)

    def __call__(
        self, streams: torch.Tensor, pre: torch.Tensor, ctx: StepContext
    ) -> Turns[tuple[torch.Tensor, torch.Tensor, StepContext]]:
        """(streams [T, S, D], pre [T, S]) -> the same after this layer, and the context they belong to.

        The first consumer layer makes entries of all rows and goes on in ``ctx.consumer`` if there is one (YOCO
        prefill, spec/model.md 11): with fewer rows, down to none, or with shorter windows.
        """
        if self.engram is not None:
            streams = ctx.probe.call(f"{self.name}.engram", self.engram, streams, ctx)
        if self._is_boundary and ctx.consumer is not None:
            x = self.attn_hc.read(streams, pre)
            self._compress(x, ctx)
            ctx = ctx.consumer
            streams, pre, x = (self._kept(values, ctx) for values in (streams, pre, x))
            mixing = self.attn_hc.mix(streams)
        else:
            x, mixing = self.attn_hc.enter(streams, pre)
            self._compress(x, ctx)
        if ctx.num_all_rows:
            streams, pre = yield from self._sublayers(x, streams, mixing, ctx)
        else:
            yield from self.moe.take_part()
        return streams, pre, ctx

    def take_part(self) -> Turns[None]:
        """What other ranks need of this layer in a step that this rank has no rows of."""
        if self.engram is not None:
            self.engram.take_part()
        yield from self.moe.take_part()

    def _compress(self, x: torch.Tensor, ctx: StepContext) -> None:
        """Entries of the attention's normed inputs x [T, D], in a layer that makes some."""
        if self.attention.compressor is not None:
            self.attention.compressor(x, ctx)

    def _kept(self, values: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """The context's rows of `values` [T0, ...], which has those of the context that it narrows."""
        return values if ctx.rows is None else self._runtime.ops.gather_rows(values, ctx.rows)

    def _sublayers(
        self, x: torch.Tensor, streams: torch.Tensor, mixing: Mixing, ctx: StepContext
    ) -> Turns[tuple[torch.Tensor, torch.Tensor]]:
        """Attention of its normed input x [T, D], then MoE, on the streams [T, S, D] that x was read from."""
        probe = ctx.probe
        if self._is_draft_target and ctx.keeps_draft_context:
            ctx.features[self._layer_id] = self._runtime.stream_mean(streams)
        probe.record(f"{self.name}.attn.in", x)
        out = probe.call(f"{self.name}.attn", self.attention, x, ctx)
        probe.record(f"{self.name}.attn.out", out)
        streams, x, mixing = self.ffn_hc.follow(streams, out, mixing)
        probe.record(f"{self.name}.ffn.in", x)
        out = yield from self.moe.in_turns(x, ctx)
        probe.record(f"{self.name}.ffn.out", out)
        streams = self.ffn_hc.write(streams, out, mixing)
        if probe.active:
            probe.record(f"{self.name}.streams", streams)
            probe.record(f"{self.name}.norm", streams.float().square().mean(dim=(1, 2)).sqrt())
        return streams, mixing.pre
