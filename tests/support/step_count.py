"""Counts a step's multiply-adds and bytes the slow way: row by row, key by key, tensor by tensor of the name table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import CacheKind, CacheSpec
from deepinfer.models.deepseek_v41.weights import tensor_table


class Rows(NamedTuple):
    """Rows of one sequence in a step."""

    context_len: int
    num_rows: int
    consumer_start: int = 0
    num_logit_rows: int = 0
    window_start: int = 0
    entry_start: int = 0


class Seen(NamedTuple):
    """What the layers of one half see of a sequence: rows, and where their windows and new entries begin."""

    positions: range
    first: int
    entry_start: int = 0


class StepCount:
    """One pass; `counts` is keyed by the fields of StepCost."""

    def __init__(
        self, config: DeepSeekV41Config, table: tuple[CacheSpec, ...], yoco: str, num_drafts: int, act_bytes: int = 2
    ) -> None:
        self.config, self.yoco, self.num_drafts, self.act_bytes = config, yoco, num_drafts, act_bytes
        self.tensors = {spec.name: spec for spec in tensor_table(config)}
        self.caches = {(spec.kind, spec.layer_id): spec for spec in table}
        self.counts: Counter[str] = Counter()
        self.touched: set[str] = set()

    def target(self, sequences: list[Rows]) -> Counter[str]:
        """All layers over the rows of all sequences."""
        whole = [
            Seen(range(s.context_len, s.context_len + s.num_rows), s.window_start, s.entry_start) for s in sequences
        ]
        halves = (whole, [self._consumer(s, seen) for s, seen in zip(sequences, whole, strict=True)])
        for seen in whole:
            for _ in seen.positions:
                self.counts["weight_bytes"] += 2 * self.config.hidden_size
        boundary = self.config.n_prefill_layer
        for plan in self.config.layer_plans:
            is_consumer = boundary is not None and plan.layer_id >= boundary
            self._layer(plan, halves[is_consumer], whole if plan.layer_id == boundary else halves[is_consumer])
        for sequence in sequences:
            for _ in range(sequence.num_logit_rows):
                self._logits()
        if self.num_drafts:
            low = boundary is None or min(self.config.dspark_target_layer_ids) < boundary
            self._draft_context(halves[0 if low else 1])
        return self._finish()

    def draft(self, last_positions: list[int]) -> Counter[str]:
        """One block a request through all stages."""
        config = self.config
        last_stage = f"mtp.{config.num_nextn_predict_layers - 1}"
        for last in last_positions:
            context = [p for p in range(last + 1) if p > last - config.sliding_window]
            for stage in range(config.num_nextn_predict_layers):
                window = self.caches[CacheKind.WINDOW, config.num_hidden_layers + stage].entry_bytes
                self.counts["cache_read_bytes"] += window * len(context)
                for _ in range(self.num_drafts):
                    self._read(f"mtp.{stage}", "attn")
                    self._block(f"mtp.{stage}", config.dspark_num_experts_per_tok)
                    self._keys(len(context) + self.num_drafts)
            for _ in range(self.num_drafts):
                self.counts["weight_bytes"] += 2 * (config.hidden_size + config.dspark_markov_rank)  # embeddings
                self._logits()
                self._product("bf16", f"{last_stage}.markov_head.head")
                self._product("bf16", f"{last_stage}.confidence_head.proj")
        num_rows = len(last_positions) * self.num_drafts
        for stage in range(config.num_nextn_predict_layers):
            self._touch_experts(
                f"mtp.{stage}", num_rows, config.dspark_n_routed_experts, config.dspark_num_experts_per_tok
            )
        return self._finish()

    def _consumer(self, sequence: Rows, seen: Seen) -> Seen:
        if self.yoco == "off":
            return seen
        if self.yoco == "mask":
            return Seen(seen.positions, max(seen.first, sequence.consumer_start))
        kept = [p for p in seen.positions if p >= sequence.consumer_start]
        positions = range(kept[0], kept[-1] + 1) if kept else range(0)
        return Seen(positions, max(seen.first, sequence.consumer_start))

    def _layer(self, plan: LayerPlan, half: list[Seen], readers: list[Seen]) -> None:
        config, prefix = self.config, f"layers.{plan.layer_id}"
        for seen in readers:
            for _ in seen.positions:
                self._read(prefix, "attn")
            if plan.owns_kv:
                self._compress(plan, seen)
        for seen in half:
            for position in seen.positions:
                if plan.engram_index is not None:
                    self._engram(prefix)
                if self.num_drafts and plan.layer_id in config.dspark_target_layer_ids:
                    self.counts["fp32"] += config.hc_mult * config.hidden_size
                self._block(prefix, config.num_experts_per_tok)
                self._keys(
                    sum(1 for p in range(position + 1) if p > position - config.sliding_window and p >= seen.first)
                )
            self._window_ring(plan.layer_id, seen)
            if plan.ratio:
                self._attend_entries(plan, seen)
        num_rows = sum(len(seen.positions) for seen in half)
        self._touch_experts(prefix, num_rows, config.n_routed_experts, config.num_experts_per_tok)

    def _window_ring(self, layer: int, seen: Seen) -> None:
        spec = self.caches[CacheKind.WINDOW, layer]
        if not seen.positions:
            return
        begin, end = seen.positions.start, seen.positions.stop
        history = [p for p in range(begin) if p > begin - self.config.sliding_window and p >= seen.first]
        kept = [p for p in seen.positions if p >= end - spec.num_entries and p >= seen.first]
        self.counts["cache_read_bytes"] += spec.entry_bytes * len(history)
        self.counts["cache_written_bytes"] += spec.entry_bytes * len(kept)

    def _attend_entries(self, plan: LayerPlan, seen: Seen) -> None:
        """Picks of every row, and what an index source scores to find them."""
        config, topk = self.config, self.config.index_topk
        picked, scored, last = 0, 0, 0
        for position in seen.positions:
            last = visible = sum(1 for p in range(position + 1) if (p + 1) % plan.ratio == 0)
            picked += len(range(visible)[:topk])
            self._keys(len(range(visible)[:topk]))
            if plan.owns_index and visible > topk:
                candidates = self._candidates(visible) if plan.uses_candidates else range(visible)
                scored += len(candidates)
                for _ in candidates:
                    for _ in range(config.index_n_heads):
                        self.counts["index"] += config.index_head_dim
                        self.counts["fp32"] += 1
                self._product("fp8", f"layers.{plan.layer_id}.attn.indexer.wq_b")
                self._product("bf16", f"layers.{plan.layer_id}.attn.indexer.weights_proj")
        main = self.caches[CacheKind.MAIN, plan.kv_source].entry_bytes
        index = self.caches[CacheKind.INDEX, plan.kv_source].entry_bytes
        self.counts["cache_read_bytes"] += main * min(picked, last) + index * min(scored, last)

    def _candidates(self, visible: int) -> list[int]:
        """Entries of as many blocks as there may be candidates, the newest among them."""
        size = self.config.candidate_block_size
        blocks = [range(begin, min(begin + size, visible)) for begin in range(0, visible, size)]
        chosen = [blocks[-1], *blocks[:-1][: self.config.candidate_topk_blocks - 1]]
        return [entry for block in chosen for entry in block]

    def _compress(self, plan: LayerPlan, seen: Seen) -> None:
        prefix = f"layers.{plan.layer_id}.attn"
        for position in seen.positions:
            if position < seen.entry_start:
                continue
            self._product("bf16", f"{prefix}.compressor.wkv")
            if plan.ratio > 1:
                self._product("bf16", f"{prefix}.compressor.wgate")
            if (position + 1) % plan.ratio:
                continue
            self._product("bf16", f"{prefix}.indexer.wk")
            self._touch(f"{prefix}.compressor.norm.weight", f"{prefix}.indexer.k_norm.weight")
            for kind in (CacheKind.MAIN, CacheKind.INDEX):
                self.counts["cache_written_bytes"] += self.caches[kind, plan.layer_id].entry_bytes
            for p in range(position + 1 - plan.ratio, position):
                if p not in seen.positions:
                    self.counts["cache_read_bytes"] += self.caches[CacheKind.COMPRESSOR, plan.layer_id].entry_bytes
        if plan.ratio > 1:
            ring = self.caches[CacheKind.COMPRESSOR, plan.layer_id]
            kept = [p for p in seen.positions if p >= seen.positions.stop - ring.num_entries]
            self.counts["cache_written_bytes"] += ring.entry_bytes * len(kept)

    def _engram(self, prefix: str) -> None:
        """One row: look up, project, gate, add."""
        config = self.config
        for _ in range((config.engram_max_ngram_size - 1) * config.engram_n_heads):
            self.counts["weight_bytes"] += config.engram_head_dim + -(-config.engram_head_dim // 32)
        self._product("fp8", f"{prefix}.engram.wkv")
        self._touch(f"{prefix}.engram.q_weight", f"{prefix}.engram.k_weight")
        for _ in range(config.hc_mult):
            self.counts["fp32"] += config.hidden_size  # q . k
            self.counts["fp32"] += config.hidden_size  # gate * value
            self.counts["activation_bytes"] += 2 * config.hidden_size * self.act_bytes

    def _block(self, prefix: str, num_picked: int) -> None:
        """One row through attention projections, experts and the streams around them, keys not counted."""
        for name in ("wq_a", "wq_b", "wkv", "wo_b"):
            self._product("fp8", f"{prefix}.attn.{name}")
        self._product(
            "fp8", f"{prefix}.attn.wo_a"
        )  # each group of heads has its own rows: [o_groups * rank, width / o_groups]
        self._product("bf16", f"{prefix}.ffn.gate")
        for name in ("w1", "w2", "w3"):
            self._product("fp8", f"{prefix}.ffn.shared_experts.{name}")
            for expert in range(num_picked):
                self.counts["experts"] += self.tensors[f"{prefix}.ffn.experts.{expert}.{name}.weight"].num_parameters
        self._read(prefix, "ffn")
        for sublayer in ("attn", "ffn"):
            self._product("fp32", f"{prefix}.hc_{sublayer}_fn", "")
            self._touch(f"{prefix}.hc_{sublayer}_base", f"{prefix}.hc_{sublayer}_scale")
            for _ in range(self.config.hc_mult):
                self.counts["fp32"] += self.config.hidden_size * (1 + self.config.hc_mult)
                self.counts["activation_bytes"] += self.config.hidden_size * self.act_bytes
        self._touch(f"{prefix}.attn.q_norm.weight", f"{prefix}.attn.kv_norm.weight", f"{prefix}.attn.attn_sink")
        self._touch(f"{prefix}.ffn.gate.bias")

    def _read(self, prefix: str, sublayer: str) -> None:
        """One row's read of the streams in front of a sublayer."""
        self._touch(f"{prefix}.{sublayer}_norm.weight")
        self._read_streams()

    def _read_streams(self) -> None:
        for _ in range(self.config.hc_mult):
            self.counts["fp32"] += self.config.hidden_size
            self.counts["activation_bytes"] += self.config.hidden_size * self.act_bytes

    def _keys(self, count: int) -> None:
        """One row's attention to so many vectors, as keys and as values."""
        for _ in range(self.config.num_attention_heads):
            self.counts["attention"] += 2 * count * self.config.head_dim

    def _logits(self) -> None:
        self._read_streams()
        name = "embed" if self.config.tie_word_embeddings else "head"
        self._product("bf16", name)
        self._touch("norm.weight")
        self.counts["activation_bytes"] += 4 * self.config.vocab_size

    def _draft_context(self, half: Iterable[Seen]) -> None:
        stages = range(self.config.num_nextn_predict_layers)
        ring = self.caches[CacheKind.WINDOW, self.config.num_hidden_layers]
        for seen in half:
            for position in seen.positions:
                if position < seen.positions.stop - ring.num_entries or position < seen.first:
                    continue
                self._product("fp8", "mtp.0.main_proj")
                self._touch("mtp.0.main_norm.weight")
                for stage in stages:
                    self._product("fp8", f"mtp.{stage}.attn.wkv")
                    self._touch(f"mtp.{stage}.attn.kv_norm.weight")
                    self.counts["cache_written_bytes"] += ring.entry_bytes

    def _product(self, kind: str, name: str, suffix: str = ".weight") -> None:
        """One row times a whole matrix: as many multiply-adds as it has weights."""
        self.counts[kind] += self.tensors[name + suffix].num_parameters
        self._touch(name + suffix, name + ".scale")

    def _touch_experts(self, prefix: str, num_rows: int, num_experts: int, num_picked: int) -> None:
        for expert in range(min(num_experts, num_rows * num_picked)):
            for name in ("w1", "w2", "w3"):
                self._touch(*(f"{prefix}.ffn.experts.{expert}.{name}.{part}" for part in ("weight", "scale")))

    def _touch(self, *names: str) -> None:
        self.touched.update(name for name in names if name in self.tensors)

    def _finish(self) -> Counter[str]:
        self.counts["weight_bytes"] += sum(self.tensors[name].num_bytes for name in self.touched)
        return self.counts
