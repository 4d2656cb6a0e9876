"""Checks of the Engram fields: where the tables sit and how many rows they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepinfer.config.engram_primes import engram_primes
from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import MAX_ENGRAM_LOOKUPS

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config

# A table row number is stored as int32 by the kernels, and the prime search must end.
_MAX_ROWS = 2**31 - 1


def validate_engram(config: DeepSeekV41Config) -> None:
    """Raises ConfigError unless the Engram tables match the hash rule (spec/model.md 9.2); nothing without Engram."""
    if not config.engram_layer_ids:
        if config.engram_num_embeddings:
            value = config.engram_num_embeddings
            raise field_error("text_config.engram_num_embeddings", value, "[] when engram_layer_ids is empty")
        return
    _check_layers(config)
    _check_ranges(config)
    _check_rows(config)


def _check_layers(config: DeepSeekV41Config) -> None:
    name, layers = "text_config.engram_layer_ids", config.engram_layer_ids
    if list(layers) != sorted(set(layers)) or layers[-1] >= config.num_hidden_layers:
        raise field_error(name, layers, f"ascending layer numbers below {config.num_hidden_layers}, each once")
    boundary = config.n_prefill_layer
    if boundary is not None and layers[-1] >= boundary:
        raise field_error(name, layers, f"layers before the first one with ratio 1 (layer {boundary})")


def _check_ranges(config: DeepSeekV41Config) -> None:
    if config.engram_max_ngram_size < 2:
        raise field_error("text_config.engram_max_ngram_size", config.engram_max_ngram_size, "an integer >= 2")
    for name in ("engram_vocab_size", "engram_n_heads", "engram_head_dim"):
        if getattr(config, name) < 1:
            raise field_error(f"text_config.{name}", getattr(config, name), "an integer >= 1")
    if not 0 <= config.engram_pad_token_id < config.vocab_size:
        expectation = f"an id below vocab_size ({config.vocab_size})"
        raise field_error("text_config.engram_pad_token_id", config.engram_pad_token_id, expectation)
    if not 1 <= config.engram_compressed_vocab_size <= config.vocab_size:
        raise field_error(
            "text_config.engram_compressed_vocab_size",
            config.engram_compressed_vocab_size,
            f"an integer from 1 to vocab_size ({config.vocab_size})",
        )


def _check_rows(config: DeepSeekV41Config) -> None:
    orders, heads = config.engram_max_ngram_size - 1, config.engram_n_heads
    if config.engram_vocab_size * orders * heads > _MAX_ROWS:
        raise field_error(
            "text_config.engram_vocab_size", config.engram_vocab_size, f"tables of at most {_MAX_ROWS} rows"
        )
    lookups = orders * heads * len(config.engram_layer_ids)
    if lookups > MAX_ENGRAM_LOOKUPS:
        expectation = f"at most {MAX_ENGRAM_LOOKUPS:,} lookups of a token in all layers together, not {lookups:,}"
        raise field_error("text_config.engram_n_heads", heads, expectation)
    tables = engram_primes(config.engram_vocab_size, orders, heads, len(config.engram_layer_ids))
    expected = [sum(sum(order) for order in table) for table in tables]
    if list(config.engram_num_embeddings) != expected:
        raise field_error(
            "text_config.engram_num_embeddings",
            config.engram_num_embeddings,
            f"{expected}: per Engram layer the sum of {orders * heads} primes from "
            f"engram_vocab_size ({config.engram_vocab_size}) on",
        )
