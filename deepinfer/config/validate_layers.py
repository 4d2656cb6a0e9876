"""Checks of the layer layout: ratios, cache sources, index sources and candidate blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepinfer.config.field_error import field_error
from deepinfer.config.size_limits import MAX_CANDIDATES

if TYPE_CHECKING:
    from deepinfer.config.model_config import DeepSeekV41Config


def validate_layers(config: DeepSeekV41Config) -> None:
    """Raises ConfigError unless every layer finds the caches it reads (spec/model.md 1.6)."""
    _check_ratios(config)
    _check_source_lists(config)
    _check_kv_sources(config)
    _check_candidates(config)


def _check_ratios(config: DeepSeekV41Config) -> None:
    name, ratios = "text_config.compress_ratios", config.compress_ratios
    layers, drafts = config.num_hidden_layers, config.num_nextn_predict_layers
    if len(ratios) != layers + drafts:
        raise field_error(
            name,
            ratios,
            f"{layers + drafts} entries (num_hidden_layers {layers} + num_nextn_predict_layers {drafts}), "
            f"found {len(ratios)}",
        )
    if any(ratio not in (0, 1, 2) for ratio in ratios):
        raise field_error(name, ratios, "ratios of 0, 1 or 2")
    if any(ratios[layers:]):
        raise field_error(name, ratios, f"0 for the {drafts} draft layers at the end")
    compressed = [layer for layer in range(layers) if ratios[layer]]
    if compressed and 0 in ratios[compressed[0] : layers]:
        layer = ratios.index(0, compressed[0])
        raise field_error(name, ratios, f"no window-only layer behind a compressed one (layer {layer} is)")


def _check_source_lists(config: DeepSeekV41Config) -> None:
    for name in ("kv_source_layer_ids", "index_source_layer_ids"):
        sources = getattr(config, name)
        if list(sources) != sorted(set(sources)):
            raise field_error(f"text_config.{name}", sources, "ascending layer numbers, each once")
        for layer in sources:
            if layer >= config.num_hidden_layers:
                raise field_error(f"text_config.{name}", sources, f"layers below {config.num_hidden_layers}")
            if config.compress_ratios[layer] == 0:
                raise field_error(f"text_config.{name}", sources, f"layers with ratio 1 or 2 (layer {layer} has 0)")
    missing = sorted(set(config.kv_source_layer_ids) - set(config.index_source_layer_ids))
    if missing:
        raise field_error(
            "text_config.index_source_layer_ids",
            config.index_source_layer_ids,
            f"to contain every KV source (layer {missing[0]} is in kv_source_layer_ids only)",
        )


def _check_kv_sources(config: DeepSeekV41Config) -> None:
    name, sources = "text_config.kv_source_layer_ids", config.kv_source_layer_ids
    for plan in config.layer_plans:
        if plan.ratio == 0:
            continue
        found = "none"
        if plan.kv_source is not None:
            found = f"layer {plan.kv_source} with ratio {config.compress_ratios[plan.kv_source]}"
        if plan.kv_source is None or config.compress_ratios[plan.kv_source] != plan.ratio:
            raise field_error(
                name,
                sources,
                f"a source with ratio {plan.ratio} at or before layer {plan.layer_id}; the last one is {found}",
            )
    whole = [layer for layer in sources if config.compress_ratios[layer] == 1]
    if len(whole) > 1:
        raise field_error(name, sources, f"at most one source with ratio 1, found layers {whole}")


def _check_candidates(config: DeepSeekV41Config) -> None:
    source = config.candidate_source_layer_id
    if source is None:
        return
    if source not in config.index_source_layer_ids or config.compress_ratios[source] != 1:
        raise field_error(
            "text_config.candidate_source_layer_id", source, "null or a layer of index_source_layer_ids with ratio 1"
        )
    for name in ("candidate_topk_blocks", "candidate_block_size"):
        if getattr(config, name) < 1:
            raise field_error(f"text_config.{name}", getattr(config, name), "an integer >= 1")
    entries = config.num_candidate_entries
    if entries > MAX_CANDIDATES:
        expectation = (
            f"at most {MAX_CANDIDATES:,} candidates: candidate_topk_blocks x candidate_block_size is {entries:,}"
        )
        raise field_error("text_config.candidate_topk_blocks", config.candidate_topk_blocks, expectation)
    if entries < config.index_topk:
        raise field_error(
            "text_config.candidate_topk_blocks",
            config.candidate_topk_blocks,
            f"candidate_topk_blocks * candidate_block_size ({entries}) >= index_topk ({config.index_topk})",
        )
