"""One draft stage: a window-only layer whose block attends to the target's context and to itself, both ways."""

from __future__ import annotations

import torch

from deepinfer.models.deepseek_v41.draft_context import DraftContext
from deepinfer.models.deepseek_v41.hyper_connection import HyperConnection
from deepinfer.models.deepseek_v41.moe import MoE
from deepinfer.models.deepseek_v41.projections import Projections
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class DraftStage:
    """Stage `stage` of the draft model (spec/decode.md 1.3 and 1.4).

    Its window ring holds context keys only, made from the target's features; block keys live for one draft pass.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, stage: int, rope: RopeTable) -> None:
        config = runtime.config
        self.name = f"mtp.{stage}"
        self._runtime = runtime
        self._rope = rope
        self._cache_id = config.num_hidden_layers + stage
        self.attn_hc = HyperConnection(runtime, weights, "attn")
        self.projections = Projections(runtime, weights.under("attn"))
        self.ffn_hc = HyperConnection(runtime, weights, "ffn")
        self.moe = MoE(
            runtime,
            weights.under("ffn"),
            config.dspark_n_routed_experts,
            config.dspark_num_experts_per_tok,
            f"{self.name}.ffn",
        )

    def store_context(self, x: torch.Tensor, ctx: StepContext) -> None:
        """Write the context keys of the target's rows, x [T, D] their normed projected features.

        All rows are written, drafts that will be rejected too: their positions are written again before anyone reads.
        """
        cache = ctx.caches.window[self._cache_id]
        kept = ctx.kept[cache.num_entries]
        cos, sin = ctx.key_rope(self._rope)
        if ctx.share is None:
            kv = self.projections.key_value(kept.of(x))
        else:
            kv = kept.of(ctx.gathered(self.projections.key_value(x)))
        self.projections.store_key_value(kv, (kept.of(cos), kept.of(sin)), cache, (kept.slots, kept.ring_slots))

    def __call__(
        self, streams: torch.Tensor, pre: torch.Tensor, ctx: DraftContext
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(streams [R * G, S, D], pre [R * G, S]) -> the same after this stage."""
        x, mixing = self.attn_hc.enter(streams, pre)
        streams, x, mixing = self.ffn_hc.follow(streams, self._attend(x, ctx), mixing)
        return self.ffn_hc.write(streams, self.moe(x, ctx), mixing), mixing.pre

    def _attend(self, x: torch.Tensor, ctx: DraftContext) -> torch.Tensor:
        rope = ctx.rope(self._rope)
        window = ctx.gather(ctx.caches.window[self._cache_id], self._runtime.ops)
        kv = self.projections.key_value(x)
        self.projections.store_key_value(kv, rope, window, (ctx.block_rows, ctx.block_places))
        heads = self._runtime.ops.sparse_attention(
            self.projections.query(self.projections.query_latent(x), rope),
            window.data[:, 0],
            ctx.key_index,
            None,
            None,
            self.projections.sink,
            window_format=window.format,
            scale=self._runtime.config.softmax_scale,
            out_dtype=self._runtime.act_dtype,
        )
        return self.projections.output(heads, rope)
