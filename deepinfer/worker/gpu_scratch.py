"""How much memory a step of the GPU kernels takes beside weights and caches."""

from __future__ import annotations

from deepinfer.worker.step_scratch import StepScratch

LIBRARY_WORKSPACE = 32 << 20  # of cuBLAS on SM90, for each stream that meets it
_ACT = 2  # bf16
_FLOAT = 4
_INDEX = 8
_MAX_ASSIGNMENTS = 1 << 16  # tilelang_ops/moe/moe.py: of one pass
_OPERAND = 128  # tilelang_ops/moe/stream_shape.py: columns of inputs and hidden vectors, rounded up
_LISTED = 5 * 4  # tilelang_ops/moe/expert_layout.py: of an assignment, at most a tile of its own
_SCORE_BYTES = 1 << 28  # tilelang_ops/index/select_entries.py: scores that exist at a time
_MOST_SPLIT_ROWS = 64  # tilelang_ops/gemm/wide_rows.py: with more, a product may have its weight recoded


class GpuScratch(StepScratch):
    """The figures follow the wrappers in tilelang_ops: which outputs are alive at once."""

    __slots__ = ()

    @property
    def num_bytes(self) -> int:
        """With what the matrix library takes for the stream of eager steps."""
        return LIBRARY_WORKSPACE + self.num_graph_bytes

    @property
    def num_graph_bytes(self) -> int:
        """Of a step that is captured: the library's memory lies outside (`CapturedCalls`)."""
        return super().num_bytes

    def _parts(self) -> tuple[int, ...]:
        return (self._experts(), self._attention(), self._selection(), self._engram(), self._features(), self._logits())

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
        """Queries before and after the rotation, or heads with their quantized copy; the low-rank vectors; the largest
        recoded weight.
        """
        config = self.config
        heads = config.num_attention_heads * config.head_dim
        low_rank = config.o_groups * config.o_lora_rank
        weights = (config.q_lora_rank * heads, heads * config.o_lora_rank, low_rank * config.hidden_size)
        values = 2 * heads + 2 * config.q_lora_rank + low_rank
        return self.num_rows * values * _ACT + self._recoded(max(weights))

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

    def _engram(self) -> int:
        """Values looked up, rounded and quantized, their projection, and its recoded weight."""
        config = self.config
        if not config.has_engram:
            return 0
        dim = (config.engram_max_ngram_size - 1) * config.engram_n_heads * config.engram_head_dim
        return self._product(dim, (config.hc_mult + 1) * config.hidden_size)

    def _features(self) -> int:
        """Features of target layers side by side, and their projection for the draft model."""
        if not self.num_drafts:
            return 0
        dim = len(self.config.dspark_target_layer_ids) * self.config.hidden_size
        return self._product(dim, self.config.hidden_size)

    def _product(self, dim: int, num_out: int) -> int:
        """Inputs in two precisions and their codes, outputs, and the recoded weight."""
        return self.num_rows * (dim * (_FLOAT + _ACT + 1) + num_out * _ACT) + self._recoded(dim * num_out)

    def _recoded(self, num_weights: int) -> int:
        """A weight of the matrix library's, with its scales; none where no product goes there."""
        return num_weights + num_weights // 1024 if self.num_rows > _MOST_SPLIT_ROWS else 0

    def _logits(self) -> int:
        """Logits of the sampled rows, and what is kept of them to draw from."""
        return 2 * self.num_logit_rows * self.config.vocab_size * _FLOAT
