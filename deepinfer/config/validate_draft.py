"""Checks of the draft model's fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepinfer.config.field_error import field_error

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config


def validate_draft(config: DeepSeekV41Config) -> None:
    """Raises ConfigError for draft fields that do not fit the target model; nothing without draft layers."""
    if not config.num_nextn_predict_layers:
        return
    for name in ("dspark_block_size", "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"):
        if getattr(config, name) < 1:
            raise field_error(f"text_config.{name}", getattr(config, name), "an integer >= 1")
    targets = config.dspark_target_layer_ids
    if not targets or len(set(targets)) != len(targets) or max(targets) >= config.num_hidden_layers:
        expectation = f"at least one layer below {config.num_hidden_layers}, each once"
        raise field_error("text_config.dspark_target_layer_ids", targets, expectation)
    if not 0 <= config.dspark_noise_token_id < config.vocab_size:
        expectation = f"an id below vocab_size ({config.vocab_size})"
        raise field_error("text_config.dspark_noise_token_id", config.dspark_noise_token_id, expectation)
    if config.dspark_num_experts_per_tok > config.dspark_n_routed_experts:
        raise field_error(
            "text_config.dspark_num_experts_per_tok",
            config.dspark_num_experts_per_tok,
            f"at most dspark_n_routed_experts ({config.dspark_n_routed_experts})",
        )
