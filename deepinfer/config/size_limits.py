"""Upper limits of a model's sizes: far above any plausible model, far below what would hang or exhaust a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from deepinfer.config.field_error import field_error

# Field -> largest value. The published model has the number behind each as a comment.
SIZE_LIMITS: Final[Mapping[str, int]] = {
    "vocab_size": 2**22,  # 129,280; several tables have a row per id
    "hidden_size": 2**17,  # 5,120
    "num_hidden_layers": 1024,  # 40
    "max_position_embeddings": 2**24,  # 1,048,576; see MAX_ROTARY_VALUES
    "num_attention_heads": 4096,  # 64
    "head_dim": 2**14,  # 512
    "qk_rope_head_dim": 2**14,  # 64
    "q_lora_rank": 2**17,  # 1,280
    "o_lora_rank": 2**17,  # 1,024
    "o_groups": 4096,  # 8
    "sliding_window": 2**16,  # 128; every layer keeps a ring of as many rows per sequence
    "index_n_heads": 4096,  # 32
    "index_head_dim": 2**14,  # 128
    "index_topk": 2**16,  # 512; every row of attention has as many key slots
    "candidate_topk_blocks": 2**16,  # 2,048
    "candidate_block_size": 2**16,  # 8; see MAX_CANDIDATES
    "n_routed_experts": 2**14,  # 384
    "num_experts_per_tok": 2**10,  # 6
    "moe_intermediate_size": 2**18,  # 2,304
    "hc_mult": 64,  # 4; a matrix of its square per row
    "hc_sinkhorn_iters": 1000,  # 20; the loop runs twice per layer and step
    "engram_max_ngram_size": 33,  # 4; the ids before a row that a step carries
    "engram_vocab_size": 2**31 - 1,  # 16,000,000; row numbers are int32
    "engram_n_heads": 1024,  # 8
    "engram_head_dim": 2**14,  # 256
    "engram_pad_token_id": 2**22,  # below vocab_size
    "engram_compressed_vocab_size": 2**22,  # 99,092
    "num_nextn_predict_layers": 64,  # 3
    "dspark_block_size": 64,  # 5; what a step may carry per sequence
    "dspark_noise_token_id": 2**22,  # below vocab_size
    "dspark_markov_rank": 2**17,  # 256
    "dspark_n_routed_experts": 2**14,  # 128
    "dspark_num_experts_per_tok": 2**10,  # 3
}
VISION_LIMITS: Final[Mapping[str, int]] = {
    "num_hidden_layers": 1024,  # 32
    "hidden_size": 2**17,  # 1,024
    "num_attention_heads": 4096,  # 16
    "intermediate_size": 2**18,  # 2,816
    "patch_size": 1024,  # 14
    "downsample_ratio": 1024,  # 3
}
MAX_STEP_TOKENS: Final = 2**31 - 1  # step plans carry 32-bit numbers
MAX_ROTARY_VALUES: Final = 2**29  # 67,108,864: max_position_embeddings x qk_rope_head_dim, 8 bytes each at load
MAX_CANDIDATES: Final = 2**22  # 16,384: candidate_topk_blocks x candidate_block_size, entries a row may score
MAX_EXPERTS: Final = 2**16  # 15,744 over all layers and stages; each has six rows in the table of tensors
MAX_ENGRAM_LOOKUPS: Final = 2**14  # 48 over all layers; each has a prime that must be found


def check_limits(section: str, values: Any, limits: Mapping[str, int]) -> None:
    """Raises ConfigError for the first attribute of `values` above its limit."""
    for name, limit in limits.items():
        if getattr(values, name) > limit:
            raise field_error(f"{section}.{name}", getattr(values, name), f"at most {limit:,}, this engine's limit")


def check_range(field: str, value: Any, low: int, high: int, *, optional: bool = False) -> None:
    """Raises ConfigError unless an option is an integer (no bool) from `low` to `high`, or None where that may be."""
    if optional and value is None:
        return
    if type(value) is not int or not low <= value <= high:
        raise field_error(field, value, f"{'None or ' if optional else ''}an integer from {low:,} to {high:,}")
