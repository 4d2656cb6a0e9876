"""Strict parsing of config.json: every field lands, every required key is missed, every wrong value is named."""

import json
import logging
from pathlib import Path

import pytest

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.errors import ConfigError

FLASH = json.loads(
    (Path(__file__).parents[2] / "deepinfer/data/configs/deepseek-v41-flash.json").read_text(encoding="utf-8")
)
OPTIONAL = {
    "transformers_version",
    "vision_config",
    "image_token_id",
    "text_config.initializer_range",
    "text_config.use_cache",
    "text_config.rope_scaling",
    "text_config.tie_word_embeddings",
    "vision_config.rope_theta",
    "vision_config.max_image_tokens",
    "vision_config.min_pixels",
    "vision_config.max_wh_ratio",
}


def _paths(values, prefix=""):
    for key, value in values.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{key}.")


def _owner(values, path):
    *sections, key = path.split(".")
    for section in sections:
        values = values[section]
    return values, key


def _set(values, path, value):
    owner, key = _owner(values, path)
    owner[key] = value


REQUIRED = [path for path in _paths(FLASH) if path not in OPTIONAL]


def test_case_36_published_config_lands(flash_path):
    config = DeepSeekV41Config.from_path(flash_path)
    text = FLASH["text_config"]
    for name in DeepSeekV41Config.__slots__:
        if name in text and name not in ("rope_scaling",):
            expected = tuple(text[name]) if isinstance(text[name], list) else text[name]
            assert getattr(config, name) == expected, name
    assert config.rope_scaling == RopeScaling(16.0, 32.0, 1.0, 65536)
    assert (config.rope_theta, config.compress_rope_theta) == (10000.0, 160000.0)
    assert (config.bos_token_id, config.eos_token_ids, config.pad_token_id) == (0, (1,), 2)
    assert config.image_token_id == 129264
    assert config.vision_config.num_hidden_layers == 32
    assert config.rms_norm_eps == 1e-20
    assert config.n_prefill_layer == 20
    assert config.has_engram
    assert config.softmax_scale == 512**-0.5


def test_directory_with_config_is_accepted(tmp_path, nano):
    (tmp_path / "config.json").write_text(json.dumps(nano), encoding="utf-8")
    assert DeepSeekV41Config.from_path(tmp_path) == DeepSeekV41Config.from_dict(nano)
    assert hash(DeepSeekV41Config.from_dict(nano)) == hash(DeepSeekV41Config.from_dict(nano))


@pytest.mark.parametrize("path", REQUIRED)
def test_case_36_each_required_key(flash, path):
    owner, key = _owner(flash, path)
    del owner[key]
    with pytest.raises(ConfigError, match=f"{path.replace('.', '[.]')}.* missing"):
        DeepSeekV41Config.from_dict(flash)


@pytest.mark.parametrize("path", sorted(OPTIONAL))
def test_optional_key_may_be_absent(flash, path, caplog):
    owner, key = _owner(flash, path)
    del owner[key]
    DeepSeekV41Config.from_dict(flash)
    assert not caplog.records


@pytest.mark.parametrize("path", ["vision_config", "text_config.rope_scaling", "image_token_id"])
def test_optional_key_may_be_null(flash, path):
    _set(flash, path, None)
    config = DeepSeekV41Config.from_dict(flash)
    assert getattr(config, path.split(".")[-1]) is None


@pytest.mark.parametrize("path", ["colour", "text_config.num_hash_layers", "quantization_config.x", "vision_config.y"])
def test_case_36_unknown_key_warns(flash, path, caplog):
    _set(flash, path, 3)
    with caplog.at_level(logging.WARNING):
        DeepSeekV41Config.from_dict(flash)
    assert len(caplog.records) == 1
    assert path in caplog.text


WRONG = [
    ("architectures", ["DeepseekV41ForCausalLMX"]),
    ("architectures", ["DeepseekV41ForCausalLM", "Other"]),
    ("architectures", "DeepseekV41ForCausalLM"),
    ("model_type", "deepseek_v4"),
    ("model_type", "deepseek_v41_text"),
    ("dtype", "float16"),
    ("bos_token_id", 129280),
    ("bos_token_id", True),
    ("eos_token_id", []),
    ("eos_token_id", [1, 129280]),
    ("eos_token_id", "1"),
    ("pad_token_id", -1),
    ("quantization_config.quant_method", "int8"),
    ("quantization_config.activation_scheme", "static"),
    ("quantization_config.weight_block_size", [128, 128]),
    ("quantization_config.scale_fmt", "float"),
    ("quantization_config.expert_dtype", "fp8"),
    ("text_config", [1]),
    ("text_config.model_type", "deepseek_v4_text"),
    ("text_config.vocab_size", 0),
    ("text_config.vocab_size", 129280.0),
    ("text_config.hidden_size", 5121),
    ("text_config.head_dim", 500),
    ("text_config.index_head_dim", 100),
    ("text_config.qk_rope_head_dim", 63),
    ("text_config.qk_rope_head_dim", 256),
    ("text_config.num_key_value_heads", 2),
    ("text_config.o_groups", 7),
    ("text_config.attention_bias", True),
    ("text_config.attention_bias", 0),
    ("text_config.attention_dropout", 0.1),
    ("text_config.hidden_act", "gelu"),
    ("text_config.swiglu_limit", 0),
    ("text_config.swiglu_limit", float("nan")),
    ("text_config.rms_norm_eps", "1e-20"),
    ("text_config.rope_theta", -1),
    ("text_config.rope_theta", 1),
    ("text_config.compress_rope_theta", 1),
    ("text_config.compress_rope_theta", 0.5),
    ("text_config.rope_scaling", "yarn"),
    ("text_config.rope_scaling.rope_type", "linear"),
    ("text_config.rope_scaling.factor", 0.5),
    ("text_config.rope_scaling.beta_fast", 1),
    ("text_config.compress_ratios", FLASH["text_config"]["compress_ratios"][:-1]),
    ("text_config.compress_ratios", [*FLASH["text_config"]["compress_ratios"], 0]),
    ("text_config.compress_ratios", [0, 0, 3, *FLASH["text_config"]["compress_ratios"][3:]]),
    ("text_config.compress_ratios", [0, 0, 2, 0, *FLASH["text_config"]["compress_ratios"][4:]]),
    ("text_config.compress_ratios", [*FLASH["text_config"]["compress_ratios"][:-1], 1]),
    ("text_config.kv_source_layer_ids", [2, 8, 14]),
    ("text_config.kv_source_layer_ids", [8, 2, 14, 20]),
    ("text_config.kv_source_layer_ids", [1, 2, 8, 14, 20]),
    ("text_config.kv_source_layer_ids", [3, 8, 14, 20]),
    ("text_config.kv_source_layer_ids", [2, 8, 14, 20, 24]),
    ("text_config.index_source_layer_ids", [2, 8, 20, 24]),
    ("text_config.index_source_layer_ids", [2, 2, 8, 14, 20]),
    ("text_config.index_source_layer_ids", [2, 8, 14, 20, 40]),
    ("text_config.index_topk", 0),
    ("text_config.candidate_source_layer_id", 14),
    ("text_config.candidate_source_layer_id", 21),
    ("text_config.candidate_topk_blocks", 63),
    ("text_config.candidate_block_size", 0),
    ("text_config.n_shared_experts", 2),
    ("text_config.num_experts_per_tok", 385),
    ("text_config.scoring_func", "softmax"),
    ("text_config.topk_method", "greedy"),
    ("text_config.norm_topk_prob", False),
    ("text_config.gate_temp", 0.5),
    ("text_config.hc_shifted", False),
    ("text_config.hc_mult", 0),
    ("text_config.engram_layer_ids", [14, 1]),
    ("text_config.engram_layer_ids", [1, 20]),
    ("text_config.engram_num_embeddings", [384006168]),
    ("text_config.engram_num_embeddings", [384006168, 384016681]),
    ("text_config.engram_max_ngram_size", 1),
    ("text_config.engram_vocab_size", 16000058),
    ("text_config.engram_pad_token_id", 129280),
    ("text_config.engram_compressed_vocab_size", 129281),
    ("text_config.dspark_target_layer_ids", [37, 38, 40]),
    ("text_config.dspark_target_layer_ids", [37, 37]),
    ("text_config.dspark_target_layer_ids", []),
    ("text_config.dspark_noise_token_id", 129280),
    ("text_config.dspark_num_experts_per_tok", 129),
    ("text_config.dspark_block_size", 0),
    ("text_config.tie_word_embeddings", "yes"),
    ("vision_config.num_attention_heads", 15),
    ("vision_config.model_type", "clip"),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_wrong_value_is_named(flash, path, value):
    _set(flash, path, value)
    with pytest.raises(ConfigError) as error:
        DeepSeekV41Config.from_dict(flash)
    assert path.split(".")[-1] in str(error.value) and ": expected " in str(error.value)


def test_message_names_field_value_and_expectation(flash):
    flash["text_config"]["index_topk"] = -3
    with pytest.raises(ConfigError, match=r"^text_config\.index_topk = -3: expected an integer >= 1$"):
        DeepSeekV41Config.from_dict(flash)


def test_case_36_v4_and_flat_configs_are_refused(flash):
    v4 = {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "num_hash_layers": 3}
    with pytest.raises(ConfigError, match="model_type = 'deepseek_v4'"):
        DeepSeekV41Config.from_dict(v4)
    flat = {**{key: value for key, value in flash.items() if key != "text_config"}, **flash["text_config"]}
    flat["model_type"] = "deepseek_v41"
    with pytest.raises(ConfigError, match="text_config is missing.*flat"):
        DeepSeekV41Config.from_dict(flat)


@pytest.mark.parametrize("inner", [None, True, False])
@pytest.mark.parametrize("outer", [None, True, False])
def test_case_34_inner_tie_flag_wins(flash, outer, inner):
    del flash["text_config"]["tie_word_embeddings"]
    if outer is not None:
        flash["tie_word_embeddings"] = outer
    if inner is not None:
        flash["text_config"]["tie_word_embeddings"] = inner
    expected = inner if inner is not None else bool(outer)
    assert DeepSeekV41Config.from_dict(flash).tie_word_embeddings is expected


def test_eos_list(flash):
    flash["eos_token_id"] = [1, 7, 1]
    assert DeepSeekV41Config.from_dict(flash).eos_token_ids == (1, 7)


def test_absent_features_need_no_fields(bare):
    text = bare["text_config"]
    for key in list(text):
        if key.startswith(("engram_", "dspark_", "candidate_", "rope_scaling")):
            del text[key]
    config = DeepSeekV41Config.from_dict(bare)
    assert not config.has_engram and config.candidate_source_layer_id is None
    assert config.engram_layer_ids == () and config.rope_scaling is None


@pytest.mark.parametrize("key", ["engram_layer_ids", "candidate_source_layer_id"])
def test_a_switch_may_not_vanish_while_its_settings_stay(flash, key):
    del flash["text_config"][key]
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        DeepSeekV41Config.from_dict(flash)


def test_general_rule_not_the_published_figures(flash):
    """Layouts that differ from V4.1-Flash in every figure, but obey the rules."""
    text = flash["text_config"]
    text["candidate_source_layer_id"] = 24  # an index source that owns no entries
    text["candidate_block_size"] = 3
    text["candidate_topk_blocks"] = 171
    text["hc_mult"] = 3
    text["moe_intermediate_size"] = 2302
    text["engram_layer_ids"], text["engram_num_embeddings"] = [3], [384006168]
    config = DeepSeekV41Config.from_dict(flash)
    assert config.layer_plans[24].is_candidate_source
    assert [plan.layer_id for plan in config.layer_plans if plan.uses_candidates] == [28, 32, 36]


def test_window_only_model(bare):
    text = bare["text_config"]
    text["compress_ratios"] = [0, 0, 0, 0]
    text["kv_source_layer_ids"] = text["index_source_layer_ids"] = []
    config = DeepSeekV41Config.from_dict(bare)
    assert config.n_prefill_layer is None and config.max_ratio == 0
    assert all(plan.kv_source is None and plan.index_source is None for plan in config.layer_plans)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe{}", "not UTF-8"),
        (b"{", "not valid JSON"),
        (b"[1]", "expected a JSON object"),
        (b'{"a": 1, "a": 2}', "'a' is given twice"),
        (b"", "not valid JSON"),
        (b"[" * 100000, "not valid JSON"),
    ],
)
def test_hostile_config_files(tmp_path, content, message):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ConfigError, match=message) as error:
        DeepSeekV41Config.from_path(tmp_path)
    assert "config.json" in str(error.value)


def test_absent_config_file(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json: cannot be read"):
        DeepSeekV41Config.from_path(tmp_path)
