"""How much memory the largest step of the native CPU backend takes beside weights and caches."""

from __future__ import annotations

from dataclasses import dataclass

from deepinfer.config.model_config import DeepSeekV41Config

_FLOAT = 4
_INDEX = 8
_CHUNK_FLOATS = 1 << 22  # csrc/cpu/model/step_context.hpp: rows go in chunks of about this
_SMALLEST_CHUNK = 64  # rows
_LIBRARY_BYTES = 8 << 20  # what torch and the kernels' threads take for themselves at the first step


@dataclass(frozen=True, slots=True)
class NativeScratch:
    """The step's workspace (csrc/cpu/model/workspace.hpp), a stack: what is held throughout, and its highest part.

    Attributes:
        config: the model.
        num_rows: most rows of a step.
        num_seqs: most sequences of a step.
        max_len: tokens of the longest sequence.
        num_drafts: drafts of a sequence, 0 with drafts off.
    """

    config: DeepSeekV41Config
    num_rows: int
    num_seqs: int
    max_len: int
    num_drafts: int = 0

    @property
    def num_bytes(self) -> int:
        """Estimate; doc/long_context.md says how far off it was."""
        parts = (self._attention(), self._experts(), self._selection(), self._logits())
        return _LIBRARY_BYTES + self._held() + max(parts)

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
        return 2 * min(self.num_rows, self.num_seqs * (1 + self.num_drafts)) * self.config.vocab_size * _FLOAT

    def _chunk(self, floats_per_row: int) -> int:
        rows = min(self.num_rows, max(_SMALLEST_CHUNK, _CHUNK_FLOATS // max(floats_per_row, 1)))
        return rows * floats_per_row * _FLOAT
