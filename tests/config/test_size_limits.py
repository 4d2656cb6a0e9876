"""Every size of a config has an upper limit, and every integer option of the engine has a range."""

import dataclasses

import pytest

from deepinfer.config.cache_config import CacheConfig
from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.engram_primes import engram_primes
from deepinfer.config.grammar_config import GrammarConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.rope_scaling import RopeScaling
from deepinfer.config.scheduler_config import SchedulerConfig
from deepinfer.config.size_limits import (
    MAX_CANDIDATES,
    MAX_ENGRAM_LOOKUPS,
    MAX_EXPERTS,
    MAX_ROTARY_VALUES,
    SIZE_LIMITS,
    VISION_LIMITS,
)
from deepinfer.config.vision_config import VisionConfig
from deepinfer.errors import ConfigError

# Integers that other checks bound: ids below vocab_size, layer numbers, and one that has a single value.
BOUND_ELSEWHERE = {"bos_token_id", "pad_token_id", "n_shared_experts"}
OPTIONS = (
    *("max_num_seqs", "max_num_batched_tokens", "max_prefill_chunk", "max_model_len", "kv_cache_bytes", "block_size"),
    *("grammar_cache_bytes", "grammar_threads", "num_threads"),
)


def _integer_fields(cls):
    return {item.name for item in dataclasses.fields(cls) if item.type == "int"}


def test_every_size_has_a_limit_far_above_the_published_one(flash_path):
    assert _integer_fields(DeepSeekV41Config) - BOUND_ELSEWHERE == set(SIZE_LIMITS)
    assert _integer_fields(VisionConfig) == set(VISION_LIMITS)
    config = DeepSeekV41Config.from_path(flash_path)
    for limits, values in ((SIZE_LIMITS, config), (VISION_LIMITS, config.vision_config)):
        for name, limit in limits.items():
            assert limit >= 8 * getattr(values, name), name
    assert 8 * config.max_position_embeddings * config.qk_rope_head_dim <= MAX_ROTARY_VALUES
    assert 8 * config.candidate_topk_blocks * config.candidate_block_size <= MAX_CANDIDATES
    assert 4 * config.num_hidden_layers * config.n_routed_experts <= MAX_EXPERTS
    assert 8 * len(config.engram_layer_ids) * config.engram_n_heads * config.engram_max_ngram_size <= MAX_ENGRAM_LOOKUPS


@pytest.mark.parametrize("value", [2**31 - 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("name", sorted(SIZE_LIMITS))
def test_huge_sizes_are_refused_at_once(flash, name, value):
    flash["text_config"][name] = value
    with pytest.raises(ConfigError, match=f"^text_config.{name} = {value}: expected"):
        DeepSeekV41Config.from_dict(flash)


@pytest.mark.parametrize("name", sorted(VISION_LIMITS))
def test_huge_sizes_of_the_image_encoder(flash, name):
    flash["vision_config"][name] = VISION_LIMITS[name] + 1
    with pytest.raises(ConfigError, match=f"vision_config.{name}|vision_config.num_attention_heads"):
        DeepSeekV41Config.from_dict(flash)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_routed_experts": 8192}, "n_routed_experts = 8192: .*65,536 routed experts"),
        ({"n_routed_experts": 512, "dspark_n_routed_experts": 2**14}, "65,536 routed experts"),
        ({"qk_rope_head_dim": 128, "max_position_embeddings": 2**24}, "max_position_embeddings = 16777216: at|rotary"),
        ({"candidate_topk_blocks": 2**16, "candidate_block_size": 2**8}, "candidate_topk_blocks = 65536: .*16,777,216"),
        (
            {"engram_vocab_size": 2, "engram_n_heads": 1024, "engram_max_ngram_size": 33},
            "engram_n_heads = 1024: .*16,384",
        ),
        ({"engram_max_ngram_size": 66}, "engram_max_ngram_size = 66: expected at most 33"),
        ({"hc_sinkhorn_iters": 10**5}, "hc_sinkhorn_iters = 100000: expected at most 1,000"),
    ],
)
def test_products_and_loops_are_bounded(flash, changes, message):
    flash["text_config"].update(changes)
    with pytest.raises(ConfigError, match=message):
        DeepSeekV41Config.from_dict(flash)


def test_rope_scaling_is_bounded():
    with pytest.raises(ConfigError, match="original_max_position_embeddings = 2147483648"):
        RopeScaling(16.0, 32.0, 1.0, 2**31)


def test_primes_are_exact_up_to_the_largest_minimum():
    def is_prime(number):
        return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))

    small = engram_primes(1, 1, 1000, 1)[0][0]
    assert list(small) == [number for number in range(small[-1] + 1) if is_prime(number)]
    minimum = 2**31 - 1
    (large,) = engram_primes(minimum, 1, 4, 1)[0]
    assert list(large) == [number for number in range(minimum, large[-1] + 1) if is_prime(number)]


@pytest.mark.parametrize("value", [2**63, 10**400, -(2**63), 1.5, "9", [], True])
@pytest.mark.parametrize("name", OPTIONS)
def test_integer_options_have_a_range(name, value):
    with pytest.raises(ConfigError, match=f"^{name} = .*: expected (None or )?an integer from") as error:
        EngineConfig.create(**{name: value})
    assert len(str(error.value)) < 200


def test_every_integer_option_is_in_the_test_above():
    names = set()
    for group in (EngineConfig, CacheConfig, SchedulerConfig, GrammarConfig):
        names |= {item.name for item in dataclasses.fields(group) if item.type in ("int", "int | None")}
    assert names == set(OPTIONS) | {"seed"}


@pytest.mark.parametrize("value", [2**31, 10**400, -1, 1.5, True])
def test_kept_tokens_have_a_range(value):
    with pytest.raises(ConfigError, match="^yoco.keep_tokens = .*: expected None or an integer from 0"):
        EngineConfig.create(yoco={"mode": "mask", "keep_tokens": value})


@pytest.mark.parametrize("name", ["max_num_seqs", "max_num_batched_tokens", "max_prefill_chunk", "max_model_len"])
def test_options_that_steps_carry_are_32_bit(name):
    with pytest.raises(ConfigError, match=f"^{name} = 2147483648"):
        EngineConfig.create(**{name: 2**31})


@pytest.mark.parametrize("name", ["grammar_timeout", "gpu_memory_utilization", "seed"])
def test_numbers_beyond_every_double(name):
    with pytest.raises(ConfigError, match=f"^{name} = an integer of 16610 bits"):
        EngineConfig.create(**{name: 10**5000})
