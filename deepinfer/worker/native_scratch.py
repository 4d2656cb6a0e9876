"""How much memory the largest step of the native CPU backend takes beside weights and caches."""

from __future__ import annotations

from deepinfer.worker.step_scratch import StepScratch

_FLOAT = 4
_INDEX = 8
_CHUNK_FLOATS = 1 << 22  # csrc/cpu/model/step_context.hpp: rows go in chunks of about this
_SMALLEST_CHUNK = 64  # rows


class NativeScratch(StepScratch):
    """The step's workspace (csrc/cpu/model/workspace.hpp), a stack."""

    __slots__ = ()

    def _parts(self) -> tuple[int, ...]:
        return (self._attention(), self._experts(), self._selection(), self._logits())

    def _held(self) -> int:
        """Streams, a sublayer's input and output, picks, candidate blocks and the window map."""
        config = self.config
        values = (config.hc_mult + 2) * config.hidden_size * _FLOAT
        numbers = config.index_topk + config.candidate_topk_blocks + config.sliding_window
        return self.num_rows * (values + numbers * _INDEX)

    def _attention(self) -> int:
        """Window keys, low-rank queries, and a chunk of query heads and results."""
        config, rows = self.config, self.num_rows
        keys = 2 * rows + self.num_seqs * config.sliding_window
        return (keys * config.head_dim + rows * config.q_lora_rank) * _FLOAT + self._chunk(
            2 * config.num_attention_heads * config.head_dim
        )

    def _experts(self) -> int:
        config = self.config
        width = config.hidden_size + 3 * config.moe_intermediate_size
        return self._chunk((config.num_experts_per_tok + 1) * width)

    def _selection(self) -> int:
        """A chunk of scores, at least one row, and its queries."""
        config = self.config
        if not config.index_source_layer_ids or not config.max_ratio:
            return 0
        entries = self.max_len // min(ratio for ratio in config.compress_ratios if ratio)
        scores = max(min(self.num_rows * entries, _CHUNK_FLOATS), entries)
        return scores * _FLOAT + self._chunk(config.index_n_heads * config.index_head_dim)

    def _logits(self) -> int:
        """Logits of the sampled rows, and their filtered copy."""
        return 2 * self.num_logit_rows * self.config.vocab_size * _FLOAT

    def _chunk(self, floats_per_row: int) -> int:
        rows = min(self.num_rows, max(_SMALLEST_CHUNK, _CHUNK_FLOATS // max(floats_per_row, 1)))
        return rows * floats_per_row * _FLOAT
