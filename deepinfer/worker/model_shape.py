"""The sizes that decide what a step costs, from a config and its cache table."""

from __future__ import annotations

from deepinfer._C import LayerShape, ModelShape
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheKind, CacheSpec


def model_shape(
    config: DeepSeekV41Config, numerics: Numerics, table: tuple[CacheSpec, ...], num_drafts: int = 0
) -> ModelShape:
    """What `StepEstimator` wants to know (csrc/core/model_shape.hpp).

    Args:
        config: the model.
        numerics: decides the bytes of an activation.
        table: caches as they are stored (worker/kv_cache.py), made for the same `num_drafts`.
        num_drafts: rows of a draft block, 0 with drafts off.
    """
    shape = ModelShape()
    shape.layers = _layers(config)
    boundary = config.n_prefill_layer
    shape.first_consumer = config.num_hidden_layers if boundary is None else boundary
    shape.vocab_size = config.vocab_size
    shape.hidden_size = config.hidden_size
    shape.num_streams = config.hc_mult
    shape.num_heads = config.num_attention_heads
    shape.head_dim = config.head_dim
    shape.q_lora_rank = config.q_lora_rank
    shape.o_lora_rank = config.o_lora_rank
    shape.o_groups = config.o_groups
    shape.sliding_window = config.sliding_window
    shape.index_heads = config.index_n_heads
    shape.index_dim = config.index_head_dim
    shape.index_topk = config.index_topk
    shape.candidate_blocks = config.candidate_topk_blocks
    shape.candidate_block_size = max(config.candidate_block_size, 1)  # 0 without candidates: no layer counts with it
    shape.num_experts = config.n_routed_experts
    shape.experts_per_token = config.num_experts_per_tok
    shape.expert_width = config.moe_intermediate_size
    shape.engram_lookups = (config.engram_max_ngram_size - 1) * config.engram_n_heads
    shape.engram_width = config.engram_head_dim
    shape.num_drafts = num_drafts
    shape.draft_stages = config.num_nextn_predict_layers
    shape.draft_experts = config.dspark_n_routed_experts
    shape.draft_experts_per_token = config.dspark_num_experts_per_tok
    shape.markov_rank = config.dspark_markov_rank
    shape.activation_bytes = 2 if numerics.low_precision else 4
    _set_cache_bytes(shape, table)
    shape.rollback = num_drafts + 1 if num_drafts else 0
    return shape


def _layers(config: DeepSeekV41Config) -> list[LayerShape]:
    return [
        LayerShape(
            ratio=plan.ratio,
            owns_kv=plan.owns_kv,
            owns_index=plan.owns_index,
            uses_candidates=plan.uses_candidates,
            has_engram=plan.engram_index is not None,
            is_draft_target=plan.layer_id in config.dspark_target_layer_ids,
        )
        for plan in config.layer_plans
    ]


def _set_cache_bytes(shape: ModelShape, table: tuple[CacheSpec, ...]) -> None:
    """All caches of a kind have the same vectors; a kind that the model lacks has none."""
    sizes = {spec.kind: spec.entry_bytes for spec in table}
    shape.main_bytes = sizes.get(CacheKind.MAIN, 0)
    shape.index_bytes = sizes.get(CacheKind.INDEX, 0)
    shape.window_bytes = sizes[CacheKind.WINDOW]
    shape.compressor_bytes = sizes.get(CacheKind.COMPRESSOR, 0)
    shape.window_ring = next(spec.num_entries for spec in table if spec.kind is CacheKind.WINDOW)
