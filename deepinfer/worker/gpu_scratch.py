"""How much memory a step of the GPU kernels takes beside weights and caches."""

from __future__ import annotations

from deepinfer.worker.step_scratch import StepScratch

_ACT = 2  # bf16
_FLOAT = 4
_INDEX = 8
_MAX_ASSIGNMENTS = 1 << 16  # tilelang_ops/moe/moe.py: of one pass
_OPERAND = 128  # tilelang_ops/moe/stream_shape.py: columns of inputs and hidden vectors, rounded up
_LISTED = 5 * 4  # tilelang_ops/moe/expert_layout.py: of an assignment, at most a tile of its own
_SCORE_BYTES = 1 << 28  # tilelang_ops/index/select_entries.py: scores that exist at a time


class GpuScratch(StepScratch):
    """The figures follow the wrappers in tilelang_ops: which outputs are alive at once."""

    __slots__ = ()

    def _parts(self) -> tuple[int, ...]:
        return (self._experts(), self._attention(), self._selection(), self._logits())

    def _held(self) -> int:
        """Streams before and after a sublayer, its input and output, features, picks, candidate blocks, windows."""
        config = self.config
        features = len(config.dspark_target_layer_ids) if self.num_drafts else 0
        values = (2 * config.hc_mult + 2 + features) * config.hidden_size
        picks = len(config.index_source_layer_ids) * config.index_topk
        blocks = 0 if config.candidate_source_layer_id is None else config.candidate_topk_blocks
        return self.num_rows * (values * _ACT + (picks + blocks + config.sliding_window) * _INDEX)

    def _experts(self) -> int:
        """Quantized inputs, hidden vectors and outputs of one pass, the shared expert's, and where each row goes."""
        config = self.config
        dim = config.hidden_size
        operand, width = (-(-size // _OPERAND) * _OPERAND for size in (dim, config.moe_intermediate_size))
        assigned = min(self.num_rows * config.num_experts_per_tok, _MAX_ASSIGNMENTS)
        values = (assigned + self.num_rows) * (dim + width) + self.num_rows * (operand + dim)
        return values * _ACT + assigned * _LISTED

    def _attention(self) -> int:
        """Queries before and after the rotation, or heads with their quantized copy; the low-rank vectors."""
        config = self.config
        heads = 2 * config.num_attention_heads * config.head_dim
        low_rank = 2 * config.q_lora_rank + config.o_groups * config.o_lora_rank
        return self.num_rows * (heads + low_rank) * _ACT

    def _selection(self) -> int:
        """Index queries in both precisions and a chunk of scores with its block maxima, beside the query latent."""
        config = self.config
        if not config.index_source_layer_ids or not config.max_ratio:
            return 0
        entries = self.max_len // min(ratio for ratio in config.compress_ratios if ratio)
        columns = max(entries, config.num_candidate_entries)
        scores = max(min(self.num_rows * columns * _FLOAT, _SCORE_BYTES), columns * _FLOAT)
        queries = config.index_n_heads * config.index_head_dim * (2 * _ACT + _FLOAT) + config.q_lora_rank * _ACT
        return self.num_rows * queries + 2 * scores

    def _logits(self) -> int:
        """Logits of the sampled rows, and what is kept of them to draw from."""
        return 2 * self.num_logit_rows * self.config.vocab_size * _FLOAT
