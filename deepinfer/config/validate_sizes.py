"""Checks of widths, heads, experts and token ids of a model config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import MAX_EXPERTS, MAX_ROTARY_VALUES, SIZE_LIMITS, check_limits

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config


def validate_sizes(config: DeepSeekV41Config) -> None:
    """Raises ConfigError for the first size that does not fit the others (spec/model.md 1.6)."""
    check_limits("text_config", config, SIZE_LIMITS)
    _check_number_of_experts(config)
    _check_groups(config)
    _check_heads(config)
    _check_rope(config)
    _check_experts(config)
    _check_token_ids(config)


def _check_number_of_experts(config: DeepSeekV41Config) -> None:
    target = config.num_hidden_layers * config.n_routed_experts
    total = target + config.num_nextn_predict_layers * config.dspark_n_routed_experts
    if total > MAX_EXPERTS:
        expectation = f"at most {MAX_EXPERTS:,} routed experts in all layers and draft stages together, not {total:,}"
        raise field_error("text_config.n_routed_experts", config.n_routed_experts, expectation)


def _check_groups(config: DeepSeekV41Config) -> None:
    for name in ("hidden_size", "head_dim", "index_head_dim"):
        value = getattr(config, name)
        if value % 32:
            raise field_error(f"text_config.{name}", value, "a multiple of 32, the quantizers' group size")
    if config.moe_intermediate_size % 2:
        value = config.moe_intermediate_size
        raise field_error("text_config.moe_intermediate_size", value, "an even number: two FP4 codes share a byte")


def _check_heads(config: DeepSeekV41Config) -> None:
    rope = config.qk_rope_head_dim
    limit = min(config.head_dim, config.index_head_dim)
    if rope % 2 or rope > limit:
        raise field_error(
            "text_config.qk_rope_head_dim", rope, f"an even number of at most head_dim and index_head_dim ({limit})"
        )
    if config.num_attention_heads % config.o_groups:
        heads = config.num_attention_heads
        raise field_error("text_config.o_groups", config.o_groups, f"a divisor of num_attention_heads ({heads})")


def _check_rope(config: DeepSeekV41Config) -> None:
    positions, width = config.max_position_embeddings, config.qk_rope_head_dim
    if positions * width > MAX_ROTARY_VALUES:
        expectation = (
            f"at most {MAX_ROTARY_VALUES // width:,} with qk_rope_head_dim {width}: the rotary tables grow with both"
        )
        raise field_error("text_config.max_position_embeddings", positions, expectation)
    for name in ("rope_theta", "compress_rope_theta"):
        theta = getattr(config, name)
        if not theta > 1:  # the YaRN ramp divides by log(theta)
            raise field_error(f"text_config.{name}", theta, "a number above 1")


def _check_experts(config: DeepSeekV41Config) -> None:
    if config.n_shared_experts != 1:
        raise field_error("text_config.n_shared_experts", config.n_shared_experts, "1")
    if config.num_experts_per_tok > config.n_routed_experts:
        raise field_error(
            "text_config.num_experts_per_tok",
            config.num_experts_per_tok,
            f"at most n_routed_experts ({config.n_routed_experts})",
        )
    if not config.norm_topk_prob:
        raise field_error("text_config.norm_topk_prob", config.norm_topk_prob, "True")


def _check_token_ids(config: DeepSeekV41Config) -> None:
    expectation = f"ids below vocab_size ({config.vocab_size})"
    for name in ("bos_token_id", "pad_token_id"):
        if not 0 <= getattr(config, name) < config.vocab_size:
            raise field_error(name, getattr(config, name), expectation)
    if any(not 0 <= token < config.vocab_size for token in config.eos_token_ids):
        raise field_error("eos_token_id", config.eos_token_ids, expectation)
