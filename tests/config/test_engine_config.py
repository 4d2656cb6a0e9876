"""Engine options: groups, validation, resolution against a model."""

import subprocess
import sys

import pytest

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.errors import ConfigError


def test_flat_options_land_in_their_groups():
    config = EngineConfig.create(model="m", block_size=8, max_num_seqs=3, numerics="fp32", device="cuda:1")
    assert (config.model, config.device, config.numerics) == ("m", "cuda:1", Numerics.FP32)
    assert (config.cache.block_size, config.scheduler.max_num_seqs) == (8, 3)
    assert EngineConfig.create() == EngineConfig()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gpu_memory_utilization", 0),
        ("gpu_memory_utilization", 1.01),
        ("gpu_memory_utilization", float("nan")),
        ("gpu_memory_utilization", "0.9"),
        ("kv_cache_bytes", 0),
        ("kv_cache_bytes", 1.5),
        ("kv_cache_dtype", "int8"),
        ("block_size", 1),
        ("block_size", True),
        ("max_num_seqs", 0),
        ("max_num_batched_tokens", 0),
        ("max_prefill_chunk", 0),
        ("max_model_len", 0),
        ("enable_chunked_prefill", 1),
        ("numerics", "fp16"),
        ("device", "gpu"),
        ("device", "cuda:x"),
        ("backend", "triton"),
        ("load_format", "gguf"),
        ("engram_storage", "gpu"),
        ("generation_config", "some/dir"),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", True),
        ("model", ""),
        ("enforce_eager", None),
        ("batch_invariant", 1),
        ("overlap", "yes"),
        ("num_threads", 0),
        ("num_threads", 1025),
        ("num_threads", True),
        ("num_threads", 2.0),
    ],
)
def test_wrong_option_is_named(name, value):
    with pytest.raises(ConfigError, match=f"^{name} = .*: expected"):
        EngineConfig.create(**{name: value})


def test_fp32_numerics_need_float32_caches():
    for dtype in ("fp4", "fp8"):
        with pytest.raises(ConfigError, match="kv_cache_dtype.*float32"):
            EngineConfig.create(numerics="fp32", kv_cache_dtype=dtype)
    EngineConfig.create(numerics="official", kv_cache_dtype="float32")


def test_backend_and_device_agree():
    with pytest.raises(ConfigError, match="backend = 'cuda'"):
        EngineConfig.create(backend="cuda", device="cpu")
    with pytest.raises(ConfigError, match="backend = 'cpu'"):
        EngineConfig.create(backend="cpu", device="cuda")


def test_unknown_option_names_the_nearest():
    with pytest.raises(TypeError, match="did you mean 'max_num_seqs'"):
        EngineConfig.create(max_num_seq=3)
    with pytest.raises(TypeError, match="known options"):
        EngineConfig.create(zzzz=3)


def test_options_accept_their_neutral_value():
    EngineConfig.create(speculative="off", yoco=None, data_parallel_size=1, expert_parallel_size=1)
    for yoco in ({"mode": "off"}, {"mode": "off", "keep_tokens": 140}):
        EngineConfig.create(yoco=yoco)


@pytest.mark.parametrize(
    "value",
    [
        {"num_drafts": False},
        {"num_drafts": 33},
        {"num_drafts": -1},
        {"num_drafts": 0, "drafts": 1},
        {"varlen": "yes"},
        {"acceptance": "maybe"},
        {"report_confidences": 1},
        {"temperatures": [1.0, 0.0]},
        {"temperatures": "warm"},
        5,
        "no/such/calibration.json",
    ],
)
def test_wrong_speculative_options(value):
    with pytest.raises(ConfigError, match="speculative"):
        EngineConfig.create(speculative=value)


def test_acceptance_follows_batch_invariance(nano):
    model = DeepSeekV41Config.from_dict(nano)
    for options, rule in (
        ({}, "coupled"),
        ({"batch_invariant": True}, "coupled"),
        ({"batch_invariant": False}, "rejection"),
        ({"batch_invariant": False, "speculative": {"acceptance": "coupled"}}, "coupled"),
        ({"batch_invariant": False, "speculative": {"acceptance": "rejection"}}, "rejection"),
    ):
        assert EngineConfig.create(**options).resolve(model, "reference").speculative.acceptance == rule
    assert EngineConfig.create().resolve(model, "cuda").speculative.acceptance == "rejection"
    for invariant in (None, True):
        config = EngineConfig.create(batch_invariant=invariant, speculative={"acceptance": "rejection"})
        with pytest.raises(ConfigError, match="'rejection' with batch_invariant = True: .*batch_invariant=False"):
            config.resolve(model, "reference")


def test_speculative_options(nano, tmp_path):
    model = DeepSeekV41Config.from_dict(nano)
    assert EngineConfig.create().resolve(model, "reference").speculative.num_drafts == model.dspark_block_size
    for value in ("off", {"num_drafts": 0}, {"num_drafts": 0, "varlen": True}):
        resolved = EngineConfig.create(speculative=value).resolve(model, "reference").speculative
        assert resolved.num_drafts is None and resolved.enabled is False
    file = tmp_path / "calibration.json"
    file.write_text('{"temperatures": [1, 2, 3], "num_drafts": 3, "note": "kept by whoever wrote it"}')
    speculative = EngineConfig.create(speculative=str(file)).resolve(model, "reference").speculative
    assert speculative.confidence_temperatures(3) == (1.0, 2.0, 3.0)
    with pytest.raises(ConfigError, match="one per draft"):
        EngineConfig.create(speculative={"temperatures": [1.0, 2.0]}).resolve(model, "reference")


def test_resolution_makes_every_default_definite(nano):
    model = DeepSeekV41Config.from_dict(nano)
    config = EngineConfig.create().resolve(model, "reference")
    scheduler = config.scheduler
    assert (scheduler.max_model_len, scheduler.max_num_batched_tokens, scheduler.max_prefill_chunk) == (
        4096,
        2048,
        2048,
    )
    assert config.cache.kv_cache_dtype == "fp4" and config.backend == "reference" and config.batch_invariant is True
    assert EngineConfig.create(numerics="fp32").resolve(model, "cpu").cache.kv_cache_dtype == "float32"
    assert EngineConfig.create().resolve(model, "cuda").batch_invariant is False


@pytest.mark.parametrize(
    ("options", "backend", "name"),
    [
        ({"block_size": 3}, "reference", "block_size"),
        ({"block_size": 32}, "cuda", "block_size"),
        ({"max_model_len": 4097}, "reference", "max_model_len"),
        ({"max_num_batched_tokens": 5}, "reference", "max_num_batched_tokens"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 64}, "reference", "max_num_batched_tokens"),
        ({"enable_chunked_prefill": False, "max_prefill_chunk": 64}, "reference", "max_prefill_chunk"),
    ],
)
def test_options_that_do_not_fit_the_model(nano, options, backend, name):
    model = DeepSeekV41Config.from_dict(nano)
    with pytest.raises(ConfigError, match=f"^{name} = "):
        EngineConfig.create(**options).resolve(model, backend)


def test_without_chunking_the_budget_covers_the_longest_prompt(nano):
    model = DeepSeekV41Config.from_dict(nano)
    config = EngineConfig.create(enable_chunked_prefill=False).resolve(model, "reference")
    assert config.scheduler.max_num_batched_tokens == config.scheduler.max_prefill_chunk == 4096


def test_configs_import_without_torch():
    code = (
        "import sys, deepinfer.config.model_config, deepinfer.config.engine_config\n"
        "import deepinfer.models.deepseek_v41.weights\nsys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
