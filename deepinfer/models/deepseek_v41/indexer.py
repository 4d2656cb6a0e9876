"""The indexer: picks the compressed entries that a layer and its readers attend to."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.core.cache_spec import KVRounding
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader


class Indexer:
    """Query side of an index source layer (spec/model.md 7).

    Scores every visible entry of the KV source's index keys, or only those in the candidate blocks, and keeps the
    `index_topk` best. The candidate source also writes the candidate blocks.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, rope: RopeTable) -> None:
        config = runtime.config
        self._runtime = runtime
        self._plan = plan
        self._rope = rope
        self._name = f"layers.{plan.layer_id}.index"
        self._scale = config.index_head_dim**-0.5 * config.index_n_heads**-0.5
        self.wq_b = weights.fp8("indexer.wq_b")
        self.weights_proj = weights.plain("indexer.weights_proj.weight")

    def __call__(self, x: torch.Tensor, q_lora: torch.Tensor, ctx: StepContext) -> None:
        """Fill ``ctx.picks`` from the attention input x [T, D] and the low-rank query q_lora [T, q_lora_rank]."""
        entries = ctx.entries[self._plan.ratio]
        topk = self._runtime.config.index_topk
        if entries.max_visible <= topk and not ctx.probe.active:
            picks = self._all_visible(entries, topk)  # everything fits: scores cannot matter
        else:
            scores = self._scores(x, q_lora, entries, ctx)
            if self._plan.is_candidate_source:
                ctx.candidates = self._candidate_blocks(scores, entries, ctx)
            if self._plan.uses_candidates and ctx.candidates is not None:
                block_size = self._runtime.config.candidate_block_size
                scores = self._runtime.ops.restrict_to_blocks(scores, ctx.candidates, block_size=block_size)
            picks = self._runtime.ops.select_topk(scores, topk)
            if ctx.probe.active:
                ctx.probe.record(f"{self._name}.margin", _selection_margin(scores, topk))
        ctx.picks[self._plan.layer_id] = picks
        ctx.probe.record(f"{self._name}.picks", picks)

    def _scores(self, x: torch.Tensor, q_lora: torch.Tensor, entries: EntryMap, ctx: StepContext) -> torch.Tensor:
        """Index scores float32 [T, max_visible], -inf where an entry is not visible."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=act)
        q = q.view(-1, config.index_n_heads, config.index_head_dim)
        q = ops.apply_rope(q, *self._rope.at(ctx.batch.positions))
        rounding = KVRounding.FP4_GROUP32 if self._runtime.quantize else KVRounding.NONE
        head_weights = ops.linear(x, self.weights_proj, act).float()
        assert self._plan.kv_source is not None
        cache = ctx.caches.index[self._plan.kv_source]
        keys = ops.decode_vectors(entries.gather_all(cache), cache.format)
        return ops.index_scores(
            ops.round_vectors(q, rounding),
            head_weights,
            keys,
            entries.row_seq,
            entries.num_visible,
            scale=self._scale,
            round_bf16=self._runtime.numerics.low_precision,
        )

    def _candidate_blocks(self, scores: torch.Tensor, entries: EntryMap, ctx: StepContext) -> torch.Tensor:
        config = self._runtime.config
        blocks = self._runtime.ops.select_blocks(
            scores,
            entries.num_visible,
            block_size=config.candidate_block_size,
            num_blocks=config.candidate_topk_blocks,
        )
        ctx.probe.record(f"{self._name}.blocks", blocks)
        return blocks

    @staticmethod
    def _all_visible(entries: EntryMap, topk: int) -> torch.Tensor:
        numbers = torch.arange(topk, device=entries.num_visible.device)
        return torch.where(numbers < entries.num_visible[:, None], numbers, -1)


def _selection_margin(scores: torch.Tensor, topk: int) -> torch.Tensor:
    """Gap float32 [T] between the last chosen and the first rejected score; inf when nothing was rejected."""
    if scores.shape[1] <= topk:
        return torch.full((scores.shape[0],), torch.inf, device=scores.device)
    best = torch.topk(scores, topk + 1, dim=1).values
    rejected = best[:, topk]
    return torch.where(rejected.isneginf(), torch.inf, best[:, topk - 1] - rejected)
