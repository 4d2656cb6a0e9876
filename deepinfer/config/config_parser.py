"""Parses the nested published config.json into the keyword arguments of DeepSeekV41Config."""

from __future__ import annotations

from typing import Any

from deepinfer.config.field_reader import FieldReader
from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.config.vision_config import VisionConfig
from deepinfer.errors import ConfigError

ARCHITECTURE = "DeepseekV41ForCausalLM"
MODEL_TYPE = "deepseek_v41"


def parse_config(values: Any) -> dict[str, Any]:
    """All fields of DeepSeekV41Config. Types and constants are checked here, relations by the class itself."""
    root = FieldReader(values)
    _check_identity(root)
    _check_quantization(root.section("quantization_config"))
    text = root.section("text_config")
    vision = root.optional_section("vision_config")
    fields: dict[str, Any] = {
        "bos_token_id": root.integer("bos_token_id", minimum=0),
        "eos_token_ids": _eos_token_ids(root),
        "pad_token_id": root.integer("pad_token_id", minimum=0),
        "image_token_id": root.optional_integer("image_token_id"),
        "tie_word_embeddings": _tie_word_embeddings(root, text),
        "vision_config": None if vision is None else VisionConfig.from_reader(vision),
    }
    for parse in (_sizes, _attention, _compression, _experts, _hyper_connections, _engram, _draft):
        fields |= parse(text)
    _check_text_constants(text)
    root.raw("transformers_version", None)
    root.warn_unknown()
    text.warn_unknown()
    return fields


def _check_identity(root: FieldReader) -> None:
    model_type = root.raw("model_type")
    if model_type != MODEL_TYPE:
        raise root.fail("model_type", f"{MODEL_TYPE!r}: this engine runs DeepSeek-V4.1 only (V4 and others are not)")
    architectures = root.raw("architectures")
    if architectures != [ARCHITECTURE]:
        raise root.fail("architectures", f"exactly [{ARCHITECTURE!r}]")
    root.constant("dtype", "bfloat16")
    if not root.has("text_config"):
        raise ConfigError(
            "text_config is missing: expected the nested published form of config.json (text_config, "
            "quantization_config...); flat V4-shaped configs are not accepted"
        )


def _check_quantization(reader: FieldReader) -> None:
    reader.constant("quant_method", "fp8")
    reader.constant("activation_scheme", "dynamic")
    reader.constant("weight_block_size", [32, 32])
    reader.constant("scale_fmt", "ue8m0")
    reader.constant("expert_dtype", "fp4")
    reader.warn_unknown()


def _check_text_constants(text: FieldReader) -> None:
    text.constant("model_type", "deepseek_v41_text")
    text.constant("num_key_value_heads", 1)
    text.constant("attention_bias", False)
    text.constant("attention_dropout", 0.0)
    text.constant("hidden_act", "silu")
    text.constant("scoring_func", "sqrtsoftplus")
    text.constant("topk_method", "noaux_tc")
    # Not in the published file; other values would change the maths.
    text.constant("gate_temp", 1.0, default=1.0)
    text.constant("hc_shifted", True, default=True)
    text.raw("initializer_range", None)
    text.raw("use_cache", None)


def _eos_token_ids(root: FieldReader) -> tuple[int, ...]:
    if isinstance(root.raw("eos_token_id"), list):
        ids = root.integers("eos_token_id")
        if not ids:
            raise root.fail("eos_token_id", "an id or a non-empty list of ids")
        return tuple(dict.fromkeys(ids))
    return (root.integer("eos_token_id", minimum=0),)


def _tie_word_embeddings(root: FieldReader, text: FieldReader) -> bool:
    """The inner value wins over the outer one; V4.1 is untied by default."""
    outer = root.boolean("tie_word_embeddings", False)
    return text.boolean("tie_word_embeddings", outer)


def _sizes(text: FieldReader) -> dict[str, Any]:
    fields: dict[str, Any] = {
        key: text.integer(key) for key in ("vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings")
    }
    fields["rms_norm_eps"] = text.number("rms_norm_eps")
    return fields


def _attention(text: FieldReader) -> dict[str, Any]:
    integers = (
        "num_attention_heads",
        "head_dim",
        "qk_rope_head_dim",
        "q_lora_rank",
        "o_lora_rank",
        "o_groups",
        "sliding_window",
    )
    fields: dict[str, Any] = {key: text.integer(key) for key in integers}
    fields |= {key: text.number(key) for key in ("rope_theta", "compress_rope_theta")}
    scaling = text.optional_section("rope_scaling")
    fields["rope_scaling"] = None if scaling is None else RopeScaling.from_reader(scaling)
    return fields


def _compression(text: FieldReader) -> dict[str, Any]:
    fields: dict[str, Any] = {
        key: text.integers(key) for key in ("compress_ratios", "kv_source_layer_ids", "index_source_layer_ids")
    }
    fields |= {key: text.integer(key) for key in ("index_n_heads", "index_head_dim", "index_topk")}
    fields["candidate_source_layer_id"] = text.optional_integer("candidate_source_layer_id")
    sizes = ("candidate_topk_blocks", "candidate_block_size")
    if fields["candidate_source_layer_id"] is not None:
        return fields | {key: text.integer(key) for key in sizes}
    if any(text.has(key) for key in sizes):
        text.raw("candidate_source_layer_id")  # its silent absence would switch a feature off
    return fields | {key: text.optional_integer(key) or 0 for key in sizes}


def _experts(text: FieldReader) -> dict[str, Any]:
    integers = ("n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size")
    fields: dict[str, Any] = {key: text.integer(key) for key in integers}
    fields |= {key: text.number(key) for key in ("routed_scaling_factor", "swiglu_limit")}
    fields["norm_topk_prob"] = text.boolean("norm_topk_prob")
    return fields


def _hyper_connections(text: FieldReader) -> dict[str, Any]:
    return {
        "hc_mult": text.integer("hc_mult"),
        "hc_sinkhorn_iters": text.integer("hc_sinkhorn_iters"),
        "hc_eps": text.number("hc_eps"),
    }


def _engram(text: FieldReader) -> dict[str, Any]:
    positive = (
        "engram_max_ngram_size",
        "engram_vocab_size",
        "engram_n_heads",
        "engram_head_dim",
        "engram_compressed_vocab_size",
    )
    tables = text.integers("engram_num_embeddings", (), minimum=1)
    absent = () if not tables and not text.has("engram_vocab_size") else None
    layers = text.integers("engram_layer_ids") if absent is None else text.integers("engram_layer_ids", absent)
    fields: dict[str, Any] = {"engram_layer_ids": layers, "engram_num_embeddings": tables}
    if layers:
        fields["engram_num_embeddings"] = text.integers("engram_num_embeddings", minimum=1)
        fields["engram_pad_token_id"] = text.integer("engram_pad_token_id", minimum=0)
        return fields | {key: text.integer(key) for key in positive}
    fields["engram_pad_token_id"] = text.optional_integer("engram_pad_token_id") or 0
    return fields | {key: text.optional_integer(key) or 0 for key in positive}


def _draft(text: FieldReader) -> dict[str, Any]:
    stages = text.integer("num_nextn_predict_layers", minimum=0)
    sizes = ("dspark_block_size", "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok")
    fields: dict[str, Any] = {"num_nextn_predict_layers": stages}
    if stages:
        fields |= {key: text.integer(key) for key in sizes}
        fields["dspark_noise_token_id"] = text.integer("dspark_noise_token_id", minimum=0)
        fields["dspark_target_layer_ids"] = text.integers("dspark_target_layer_ids")
        return fields
    fields |= {key: text.optional_integer(key) or 0 for key in (*sizes, "dspark_noise_token_id")}
    fields["dspark_target_layer_ids"] = text.integers("dspark_target_layer_ids", ())
    return fields
