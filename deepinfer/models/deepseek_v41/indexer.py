"""The indexer: picks the compressed entries that a layer and its readers attend to."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.core.cache_spec import KVRounding
from deepinfer.core.selection import Selection
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Indexer:
    """Query side of an index source layer (spec/model.md 7).

    A row that sees at most `index_topk` entries takes them all. For the others it scores every visible entry of the KV
    source's index keys, or only those in the candidate blocks, and keeps the best. The candidate source also writes the
    candidate blocks, unless every block would be one.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, rope: RopeTable) -> None:
        self._runtime = runtime
        self._plan = plan
        self._rope = rope
        self._name = f"layers.{plan.layer_id}.index"
        self._scale = runtime.config.index_scale
        self._num_blocks = runtime.config.candidate_topk_blocks if plan.is_candidate_source else 0
        self.wq_b = weights.fp8("indexer.wq_b")
        self.weights_proj = weights.plain("indexer.weights_proj.weight")

    def __call__(self, x: torch.Tensor, q_lora: torch.Tensor, ctx: StepContext) -> None:
        """Fill ``ctx.picks`` from the attention input x [T, D] and the low-rank query q_lora [T, q_lora_rank]."""
        entries, probe = ctx.entries[self._plan.ratio], ctx.probe
        if probe.active or entries.max_visible > self._runtime.config.index_topk:
            selection = self._select(x, q_lora, ctx)
        else:  # everything fits, so nobody will look at candidate blocks either
            selection = Selection(entries.all_visible(self._runtime.config.index_topk))
        ctx.picks[self._plan.layer_id] = selection.picks
        if self._plan.is_candidate_source:
            ctx.candidates = selection.blocks
        records = {"picks": selection.picks, "blocks": selection.blocks}
        margins = {"margin": selection.margin, "block_margin": selection.block_margin}
        for name, values in (records | margins).items():
            if values is not None:
                probe.record(f"{self._name}.{name}", values)

    def _select(self, x: torch.Tensor, q_lora: torch.Tensor, ctx: StepContext) -> Selection:
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        assert self._plan.kv_source is not None
        entries = ctx.entries[self._plan.ratio]
        skips_blocks = not ctx.probe.active and entries.max_visible <= config.num_candidate_entries
        uses_candidates = self._plan.uses_candidates and not skips_blocks
        return ops.select_entries(
            self._query(q_lora, ctx),
            ops.linear(x, self.weights_proj, act).float(),
            entries.of(ctx.caches.index[self._plan.kv_source]),
            entries.num_visible,
            ctx.candidates if uses_candidates else None,
            max_visible=entries.max_visible,
            topk=config.index_topk,
            scale=self._scale,
            round_bf16=self._runtime.numerics.low_precision,
            block_size=config.candidate_block_size,
            num_blocks=0 if skips_blocks else self._num_blocks,
            with_margins=ctx.probe.active,
        )

    def _query(self, q_lora: torch.Tensor, ctx: StepContext) -> torch.Tensor:
        """Rotated, rounded query heads float32 [T, Hi, di]."""
        config, ops = self._runtime.config, self._runtime.ops
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=self._runtime.act_dtype)
        q = q.view(-1, config.index_n_heads, config.index_head_dim)
        q = ops.apply_rope(q, *ctx.rope(self._rope))
        return ops.round_vectors(q, KVRounding.FP4_GROUP32 if self._runtime.quantize else KVRounding.NONE)
