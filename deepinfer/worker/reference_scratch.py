"""How much memory the largest step of the reference ops takes beside weights and caches, on a CPU."""

from __future__ import annotations

from deepinfer.ops.composed.index_group import KEY_BYTES_PER_GROUP
from deepinfer.ops.composed.select_entries import LEAST_ROWS_PER_CHUNK, SCORE_BYTES_PER_CHUNK
from deepinfer.ops.composed.sparse_attention import ENTRY_BYTES_PER_CHUNK
from deepinfer.worker.step_scratch import StepScratch

_FLOAT = 4
_INDEX = 8
_TILE_ROWS = 16  # experts' rows are padded to whole tiles
_DENSE_BYTES = (1 << 22) * _FLOAT  # experts' weights dequantized at a time, at least one expert
_PRODUCT_BYTES = 3 * (4 << 20)  # index_scores: products of some tiles and what is made of them
_GATHER_BYTES = 6 * (2 << 20)  # attend_vectors: keys of some rows, their copies, logits and weights


class ReferenceScratch(StepScratch):
    """The figures follow the reference ops: how many float32 copies of a tensor are alive at once."""

    __slots__ = ()

    def _parts(self) -> tuple[int, ...]:
        return (self._streams(), self._experts(), self._attention(), self._selection(), self._logits())

    def _held(self) -> int:
        """Streams before and after a sublayer, window map, picks of every index source, candidate blocks."""
        config, rows = self.config, self.num_rows
        streams = 2 * rows * config.hc_mult * config.hidden_size * _FLOAT
        picks = len(config.index_source_layer_ids) * rows * config.index_topk * _INDEX
        blocks = 0 if config.candidate_source_layer_id is None else rows * config.candidate_topk_blocks * _INDEX
        return streams + picks + blocks + 3 * rows * config.sliding_window * _INDEX

    def _streams(self) -> int:
        """Mixing and writing the streams: they, their product and the sublayer's share, in float32."""
        return 3 * self.num_rows * self.config.hc_mult * self.config.hidden_size * _FLOAT

    def _experts(self) -> int:
        config, rows = self.config, self.num_rows
        dim, width, experts = config.hidden_size, config.moe_intermediate_size, config.n_routed_experts
        assigned = rows * config.num_experts_per_tok
        padded = assigned + min(experts, assigned) * (_TILE_ROWS - 1)
        inputs = (assigned + 2 * padded + rows) * dim
        hidden = 2 * padded * width + 4 * (assigned + rows) * width
        expert = 2 * dim * width * _FLOAT  # gate and up, or down and its aligned copy
        return (inputs + hidden) * _FLOAT + max(2 * min(_DENSE_BYTES, experts * expert), expert)

    def _attention(self) -> int:
        """Queries before and after the rotation, heads, and one chunk of decoded entries with its stored form."""
        config, rows = self.config, self.num_rows
        heads = 4 * rows * config.num_attention_heads * config.head_dim * _FLOAT
        entry = config.index_topk * config.head_dim * _FLOAT
        return heads + _GATHER_BYTES + 2 * min(rows * entry, max(ENTRY_BYTES_PER_CHUNK, entry))

    def _selection(self) -> int:
        """Index queries, keys of a group (stored, decoded, in tiles), scores (plain, no NaN, by blocks, masked).

        Their sizes change with every step of a long prompt, so the allocator keeps about half as much again in gaps.
        """
        config, rows = self.config, self.num_rows
        if not config.index_source_layer_ids or not config.max_ratio:
            return 0
        ratio = min(ratio for ratio in config.compress_ratios if ratio)
        entries = self.max_len // ratio
        queries = 3 * rows * config.index_n_heads * config.index_head_dim * _FLOAT
        keys = min(KEY_BYTES_PER_GROUP, max(self.num_seqs, 1) * entries * config.index_head_dim * _FLOAT)
        scores = entries * _FLOAT * rows
        least = entries * _FLOAT * min(rows, LEAST_ROWS_PER_CHUNK)
        return queries + _PRODUCT_BYTES + 4 * keys + 7 * min(scores, max(SCORE_BYTES_PER_CHUNK, least))

    def _logits(self) -> int:
        """Logits of the sampled rows, their filtered copy and the noise."""
        return 3 * self.num_logit_rows * self.config.vocab_size * _FLOAT
