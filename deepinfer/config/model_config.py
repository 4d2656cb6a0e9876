"""DeepSeekV41Config: the published config.json as one frozen, validated value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepinfer.config.config_file import read_config_file
from deepinfer.config.config_parser import parse_config
from deepinfer.config.layer_plan import LayerPlan
from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.config.validate_draft import validate_draft
from deepinfer.config.validate_engram import validate_engram
from deepinfer.config.validate_layers import validate_layers
from deepinfer.config.validate_sizes import validate_sizes
from deepinfer.config.vision_config import VisionConfig


@dataclass(frozen=True, slots=True)
class DeepSeekV41Config:
    """Everything the engine knows about a model, with the field names of spec/model.md 1.1 and 1.2.

    ``text_config`` is flattened into this class. Constants that the engine accepts in one value only (activation,
    scoring function, block size of the scales...) are checked while parsing and not kept. Every construction is
    validated; a ConfigError names the field, its value and the expectation.
    """

    # tokens (root of config.json)
    bos_token_id: int
    eos_token_ids: tuple[int, ...]
    pad_token_id: int
    image_token_id: int | None
    # sizes
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    tie_word_embeddings: bool
    rms_norm_eps: float
    max_position_embeddings: int
    # attention
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_lora_rank: int
    o_groups: int
    sliding_window: int
    rope_theta: float
    compress_rope_theta: float
    rope_scaling: RopeScaling | None
    # compressed layers
    compress_ratios: tuple[int, ...]
    kv_source_layer_ids: tuple[int, ...]
    index_source_layer_ids: tuple[int, ...]
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    candidate_source_layer_id: int | None
    candidate_topk_blocks: int
    candidate_block_size: int
    # experts
    n_routed_experts: int
    n_shared_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool
    routed_scaling_factor: float
    swiglu_limit: float
    # hyper-connections
    hc_mult: int
    hc_sinkhorn_iters: int
    hc_eps: float
    # Engram
    engram_layer_ids: tuple[int, ...]
    engram_num_embeddings: tuple[int, ...]
    engram_max_ngram_size: int
    engram_vocab_size: int
    engram_n_heads: int
    engram_head_dim: int
    engram_pad_token_id: int
    engram_compressed_vocab_size: int
    # drafts
    num_nextn_predict_layers: int
    dspark_block_size: int
    dspark_noise_token_id: int
    dspark_target_layer_ids: tuple[int, ...]
    dspark_markov_rank: int
    dspark_n_routed_experts: int
    dspark_num_experts_per_tok: int
    # images (not built yet: their tensors are checked and skipped)
    vision_config: VisionConfig | None

    def __post_init__(self) -> None:
        validate_sizes(self)
        validate_layers(self)
        validate_engram(self)
        validate_draft(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> DeepSeekV41Config:
        """Parses the nested published form; logs one warning per unknown key."""
        return cls(**parse_config(values))

    @classmethod
    def from_path(cls, path: str | Path) -> DeepSeekV41Config:
        """Parses a config file, or ``config.json`` of a directory."""
        return cls.from_dict(read_config_file(path))

    @property
    def layer_plans(self) -> tuple[LayerPlan, ...]:
        """The roles of every target layer, in order (built anew on each access)."""
        return tuple(LayerPlan.for_layer(self, layer_id) for layer_id in range(self.num_hidden_layers))

    @property
    def n_prefill_layer(self) -> int | None:
        """First layer with ratio 1 (the YOCO boundary), None without one."""
        layers = range(self.num_hidden_layers)
        return next((layer for layer in layers if self.compress_ratios[layer] == 1), None)

    @property
    def softmax_scale(self) -> float:
        """Factor of attention scores: head_dim ** -0.5."""
        return float(self.head_dim**-0.5)

    @property
    def index_scale(self) -> float:
        """Factor of the indexer's scores: (index_head_dim * index_n_heads) ** -0.5, from two roots."""
        return float(self.index_head_dim**-0.5 * self.index_n_heads**-0.5)

    @property
    def num_candidate_entries(self) -> int:
        """Entries in the candidate blocks of a row; with no more in all, the candidates leave none out."""
        return self.candidate_topk_blocks * self.candidate_block_size

    @property
    def has_engram(self) -> bool:
        """Whether any layer adds n-gram embeddings."""
        return bool(self.engram_layer_ids)

    @property
    def max_ratio(self) -> int:
        """Largest compression ratio of the target layers (0: window-only)."""
        return max(self.compress_ratios[: self.num_hidden_layers])
