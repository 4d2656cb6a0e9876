"""The indexer: picks the compressed entries that a layer and its readers attend to."""

from __future__ import annotations

import torch

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.core.cache_spec import KVRounding
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.index_group import IndexGroup
from deepinfer.models.deepseek_v41.rope import RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.selection_margin import block_margin, selection_margin
from deepinfer.models.deepseek_v41.step_context import StepContext
from deepinfer.models.deepseek_v41.weight_reader import WeightReader

# float32 scores of one row chunk; what is made of them on the way to the picks is a few times as much.
SCORE_BYTES_PER_CHUNK = 8 * 2**20
LEAST_ROWS_PER_CHUNK = 16  # keys that come in parts are decoded again for every row chunk


class Indexer:
    """Query side of an index source layer (spec/model.md 7).

    A row that sees at most `index_topk` entries takes them all. For the others it scores every visible entry of the KV
    source's index keys, or only those in the candidate blocks, and keeps the best. The candidate source also writes the
    candidate blocks. Sequences of like length are scored together, in row chunks, so that neither the keys of all
    sequences nor the scores of all rows ever exist at once; nor do, for a long one, all of its own keys.
    """

    def __init__(self, runtime: ModelRuntime, weights: WeightReader, plan: LayerPlan, rope: RopeTable) -> None:
        self._runtime = runtime
        self._plan = plan
        self._rope = rope
        self._name = f"layers.{plan.layer_id}.index"
        self._scale = runtime.config.index_scale
        self.wq_b = weights.fp8("indexer.wq_b")
        self.weights_proj = weights.plain("indexer.weights_proj.weight")

    def __call__(self, x: torch.Tensor, q_lora: torch.Tensor, ctx: StepContext) -> None:
        """Fill ``ctx.picks`` from the attention input x [T, D] and the low-rank query q_lora [T, q_lora_rank]."""
        config, entries, probe = self._runtime.config, ctx.entries[self._plan.ratio], ctx.probe
        picks = _all_visible(entries.num_visible, config.index_topk)
        ctx.picks[self._plan.layer_id] = picks
        if self._plan.is_candidate_source:
            ctx.candidates = picks.new_full((picks.shape[0], config.candidate_topk_blocks), -1)
        if probe.active or entries.max_visible > config.index_topk:
            query = self._query(x, q_lora, ctx)
            for group in entries.groups:
                if probe.active or group.num_entries > config.index_topk:  # else everything fits
                    self._pick(query, group, picks, ctx)
        probe.record(f"{self._name}.picks", picks)
        if self._plan.is_candidate_source and ctx.candidates is not None:
            probe.record(f"{self._name}.blocks", ctx.candidates)

    def _query(self, x: torch.Tensor, q_lora: torch.Tensor, ctx: StepContext) -> tuple[torch.Tensor, torch.Tensor]:
        """Rotated, rounded query heads float32 [T, Hi, di] and head weights float32 [T, Hi]."""
        config, ops, act = self._runtime.config, self._runtime.ops, self._runtime.act_dtype
        q = ops.quantized_linear(q_lora, self.wq_b, quantize=self._runtime.quantize, out_dtype=act)
        q = q.view(-1, config.index_n_heads, config.index_head_dim)
        q = ops.apply_rope(q, *self._rope.at(ctx.batch.positions))
        rounding = KVRounding.FP4_GROUP32 if self._runtime.quantize else KVRounding.NONE
        return ops.round_vectors(q, rounding), ops.linear(x, self.weights_proj, act).float()

    def _pick(
        self, query: tuple[torch.Tensor, torch.Tensor], group: IndexGroup, picks: torch.Tensor, ctx: StepContext
    ) -> None:
        """Score the rows of one group and fill in their picks (and candidates)."""
        parts = group.key_parts(4 * self._runtime.config.index_head_dim)
        whole = self._keys(group, parts[0], ctx) if len(parts) == 1 else None
        least = 1 if whole is not None else LEAST_ROWS_PER_CHUNK
        chunk = max(least, SCORE_BYTES_PER_CHUNK // (max(group.num_entries, 1) * 4))
        for where in zip(group.rows.split(chunk), group.row_group.split(chunk), strict=True):
            if whole is not None:
                scores = self._scores(query, where, whole, parts[0], ctx)
            else:
                pieces = [self._scores(query, where, self._keys(group, part, ctx), part, ctx) for part in parts]
                scores = torch.cat(pieces, dim=1)
            self._select(scores, where[0], picks, ctx)

    def _keys(self, group: IndexGroup, part: range, ctx: StepContext) -> torch.Tensor:
        """Keys float32 [G, len(part), di] of some entries of the group's sequences."""
        assert self._plan.kv_source is not None
        cache = ctx.caches.index[self._plan.kv_source]
        return self._runtime.ops.decode_vectors(
            ctx.entries[self._plan.ratio].gather_group(cache, group, part), cache.format
        )

    def _scores(
        self,
        query: tuple[torch.Tensor, torch.Tensor],
        where: tuple[torch.Tensor, torch.Tensor],
        keys: torch.Tensor,
        part: range,
        ctx: StepContext,
    ) -> torch.Tensor:
        """Scores float32 [n, len(part)] of (rows [n], their places in the group) for entries with given keys."""
        rows, row_group = where
        return self._runtime.ops.index_scores(
            query[0][rows],
            query[1][rows],
            keys,
            row_group,
            (ctx.entries[self._plan.ratio].num_visible[rows] - part.start).clamp(min=0),
            scale=self._scale,
            round_bf16=self._runtime.numerics.low_precision,
        )

    def _select(self, scores: torch.Tensor, rows: torch.Tensor, picks: torch.Tensor, ctx: StepContext) -> None:
        """Fill picks and candidates of some rows [n] from their scores [n, N]."""
        config, ops, entries = self._runtime.config, self._runtime.ops, ctx.entries[self._plan.ratio]
        visible = entries.num_visible[rows]
        if ctx.candidates is not None and self._plan.is_candidate_source:
            ctx.candidates[rows] = self._candidate_blocks(scores, rows, entries, ctx)
        if ctx.candidates is not None and self._plan.uses_candidates:
            block_size = config.candidate_block_size
            scores = ops.restrict_to_blocks(scores, ctx.candidates[rows], block_size=block_size)
        best = ops.select_topk(scores, config.index_topk)
        picks[rows] = torch.where(visible[:, None] > config.index_topk, best, picks[rows])
        if ctx.probe.active:
            ctx.probe.record(f"{self._name}.margin", selection_margin(scores, config.index_topk), rows)

    def _candidate_blocks(
        self, scores: torch.Tensor, rows: torch.Tensor, entries: EntryMap, ctx: StepContext
    ) -> torch.Tensor:
        config, visible = self._runtime.config, entries.num_visible[rows]
        shape = {"block_size": config.candidate_block_size, "num_blocks": config.candidate_topk_blocks}
        if ctx.probe.active:
            ctx.probe.record(f"{self._name}.block_margin", block_margin(scores, visible, **shape), rows)
        return self._runtime.ops.select_blocks(scores, visible, **shape)


def _all_visible(num_visible: torch.Tensor, count: int) -> torch.Tensor:
    """Entries 0 .. num_visible-1 as picks int64 [T, count], -1 padded."""
    numbers = torch.arange(count, device=num_visible.device)
    return torch.where(numbers < num_visible[:, None], numbers, -1)
