"""The environment table: strict values, one row per documented name, arguments win."""

import logging
import os
import subprocess
import sys

import pytest

from deepinfer import ConfigError
from deepinfer.engine.engine_options import engine_config
from deepinfer.envs import VARIABLES, EnvUse, child_environment, read_environment

DOCUMENTED = """
ACCELERATOR JIT_CACHE_DIR COMPUTE_SUM_SMALLER_PROBS BATCH_INVARIANT DISABLE_SYNC_GUARD CPP_LOG_LEVEL GC_INTERVAL_STEP
HF_MODEL_DIR NCCL_NUM_SMS USERBUFFER_COMM_SMS GLOO_TIMEOUT REARRANGE_P2P_GROUPS RINGBUFFER_WARNING_INTERVAL
NCCL_MEMORY_SAMPLE_INTERVAL_STEPS OVERRIDE_NUM_EXTRA_EXPERTS EXPERT_COUNT_WINDOW_SIZE
EXPERT_REARRANGEMENT_STEP_INTERVAL REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE MOE_LB_STAT_INTERVAL FORCE_IMBALANCE_RATIO
FORCE_LOAD_BALANCE SHOW_EPLB_DETAIL PREFILL_MAX_SUM_SEQLEN_K INDEX_ATTN_MEMORY_LIMIT YOCO_PREFILL_TRUNCATION_MODE
YOCO_PREFILL_KEEP_TOKENS MAX_BACKTRACKING_TOKENS NUM_STATE_SLOTS_RATIO PREFILL_STORE_EXTRA_STATE
PREFILL_STORE_EXTRA_SIZE USE_NEXTN_DECODE ENABLE_MTP_VARLEN DFLASH_CONFIDENCE_HEAD_TEMPERATURE SAMPLER_FORCE_TOPK
DECODE_TOKEN_BLACKLIST DECODE_PERF_CACHE_DIR DECODE_PERF_CACHE_TTL_SEC ENFORCE_EAGER CUDAGRAPH_BATCH_SIZE_INTERVAL
DFLASH_ENFORCE_EAGER DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL PREFILL_ATTEMPT_INTERVAL PREFILL_ANY_ATTEMPT_INTERVAL
ZERO_OVERHEAD_SCHEDULING LOGGING_INTERVAL_STEP XGRAMMAR_DEBUG XGRAMMAR_TIMEOUT XGRAMMAR_DISABLE_CACHE
XGRAMMAR_CACHE_LIMIT_BYTES SO_BUILDER_CPUS USE_MULTIMODAL_POOL MULTIMODAL_POOL_SIZE_GB MULTI_MODAL_BUFFER_SIZE
MULTI_MODAL_WORKER_TIMEOUT ENGRAM_PAD_TOKEN ENGRAM_FORCE_GPU_STORAGE PROFILE_TORCH_CUDA_MEMORY ENABLE_MEMORY_TRACING
PROFILE_HTTP_ENABLE PROFILE_HTTP_PORT_BASE TORCH_PROFILER_DIR FUSED_SAMPLE_STRESS_TEST FUSED_SAMPLE_DETAIL_LOG
"""


def test_every_documented_name_has_one_row_with_a_use() -> None:
    assert sorted(row.name for row in VARIABLES) == sorted("DEEPINFER_" + name for name in DOCUMENTED.split())
    assert all(row.target for row in VARIABLES)


def fields(**variables: str) -> dict:
    report = read_environment({f"DEEPINFER_{name}": text for name, text in variables.items()})
    report.raise_errors()
    return report.fields


@pytest.mark.parametrize("name", [row.name for row in VARIABLES if row.parse.__name__ == "parse_bool"])
def test_case_41_booleans_are_strict(name: str) -> None:
    (row,) = [row for row in VARIABLES if row.name == name]
    for text, value in (("1", True), ("true", True), ("YES", True), (" 1 ", True), ("0", False), ("False", False)):
        assert row.parse(text) is value
    assert row.parse("off") is False
    for text in ("2", "enabled", "t", "-1"):
        with pytest.raises(ConfigError, match=f"{name}='{text}': expected one of 1, true"):
            read_environment({name: text}).raise_errors()
    assert read_environment({name: ""}).findings == ()  # empty means: not set


def test_case_41_integers_are_strict() -> None:
    for text in ("4", " 4 "):
        report = read_environment({"DEEPINFER_PREFILL_ATTEMPT_INTERVAL": text})
        assert report.findings[0].value == 4 and not report.findings[0].is_error
    for text in ("4.0", "four", "-1", "0", "0x4", "1_0", "٤", "9" * 5000):
        with pytest.raises(ConfigError, match="DEEPINFER_PREFILL_ATTEMPT_INTERVAL"):
            read_environment({"DEEPINFER_PREFILL_ATTEMPT_INTERVAL": text}).raise_errors()


def test_defaults_of_fields() -> None:
    assert fields() == {}
    assert fields(BATCH_INVARIANT="1", ENFORCE_EAGER="no") == {"batch_invariant": True, "enforce_eager": False}
    assert fields(USE_NEXTN_DECODE="0") == {"speculative": {"num_drafts": 0}}
    assert fields(USE_NEXTN_DECODE="5", ENABLE_MTP_VARLEN="1", DFLASH_CONFIDENCE_HEAD_TEMPERATURE="1.5,0") == {
        "speculative": {"num_drafts": 5, "varlen": True, "temperatures": (1.5, 1e-5)}
    }
    assert fields(YOCO_PREFILL_TRUNCATION_MODE="off") == {"yoco": "off"}
    assert fields(YOCO_PREFILL_TRUNCATION_MODE="compact", YOCO_PREFILL_KEEP_TOKENS="140") == {
        "yoco": {"mode": "compact", "keep_tokens": 140}
    }


def test_case_41_ignored_refused_and_misspelt_names() -> None:
    report = read_environment({"DEEPINFER_NCCL_NUM_SMS": "32", "DEEPINFER_BATCH_INVARIAN": "1", "OTHER": "x"})
    report.raise_errors()
    ignored, misspelt = sorted(report.warnings, reverse=True)
    assert "DEEPINFER_NCCL_NUM_SMS='32': ignored" in ignored
    assert "did you mean DEEPINFER_BATCH_INVARIANT?" in misspelt
    for name, neutral, active in (
        ("SAMPLER_FORCE_TOPK", "0", "5"),
        ("FORCE_LOAD_BALANCE", "false", "true"),
        ("FORCE_IMBALANCE_RATIO", "0.0", "1.8"),
        ("COMPUTE_SUM_SMALLER_PROBS", "0", "1"),
        ("DECODE_TOKEN_BLACKLIST", "", "0..3"),
    ):
        read_environment({f"DEEPINFER_{name}": neutral}).raise_errors()
        with pytest.raises(ConfigError, match=f"DEEPINFER_{name}"):
            read_environment({f"DEEPINFER_{name}": active}).raise_errors()


def test_kept_tokens_alone_get_a_warning() -> None:
    keep, mode = "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE"
    for variables in ({keep: "140"}, {keep: "140", mode: "off"}):
        (warning,) = read_environment(variables).warnings
        assert f"{keep}='140': ignored: no effect without {mode}" in warning
    assert read_environment({keep: "140", mode: "mask"}).warnings == ()


def test_the_model_decides_about_the_engram_pad_token() -> None:
    report = read_environment({"DEEPINFER_ENGRAM_PAD_TOKEN": "7"})
    report.raise_errors()
    report.check_model({"engram_pad_token_id": 7})
    with pytest.raises(ConfigError, match="DEEPINFER_ENGRAM_PAD_TOKEN='7'.*engram_pad_token_id is 2"):
        report.check_model({"engram_pad_token_id": 2})
    assert report.warnings == () and "engram_pad_token_id" in environment_row("DEEPINFER_ENGRAM_PAD_TOKEN")


def environment_row(name: str) -> str:
    return next(row.target for row in VARIABLES if row.name == name)


def test_case_41_arguments_win_and_warnings_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    report = read_environment({"DEEPINFER_ENFORCE_EAGER": "1", "DEEPINFER_ENFORCE_EAGR": "1"})
    with caplog.at_level(logging.WARNING, logger="deepinfer"):
        assert engine_config({"enforce_eager": None}, {}, report).enforce_eager is True
    assert "DEEPINFER_ENFORCE_EAGR" in caplog.text
    assert engine_config({"enforce_eager": False}, {}, report).enforce_eager is False


def test_settings_and_log_level() -> None:
    report = read_environment({"DEEPINFER_CPP_LOG_LEVEL": "ERROR", "DEEPINFER_LOGGING_INTERVAL_STEP": "-1"})
    assert report.settings == {"log_level": "error", "logging_interval_step": -1}
    logger = logging.getLogger("deepinfer")
    before = logger.level
    try:
        engine_config({}, {}, report)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(before)


def test_only_envs_reads_the_environment() -> None:
    import deepinfer

    root = os.path.dirname(deepinfer.__file__)
    readers = [
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".py") and _reads_environment(os.path.join(folder, name))
    ]
    assert readers == ["envs.py"]


def _reads_environment(path: str) -> bool:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return "environ[" in text or "environ.get" in text or "getenv" in text or "= os.environ" in text


def test_case_30_import_takes_no_torch_and_starts_nothing() -> None:
    code = (
        "import sys, threading, deepinfer, deepinfer.envs, deepinfer.sampling_params, deepinfer.outputs;"
        "import deepinfer.config.engine_config;"
        "assert 'torch' not in sys.modules and threading.active_count() == 1; deepinfer.SamplingParams;"
        "assert 'torch' not in sys.modules; assert 'LLM' in dir(deepinfer)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_use_is_a_plain_word() -> None:
    assert {use.value for use in EnvUse} == {"field", "setting", "ignored", "refused", "checked"}


def test_children_have_no_multicast_unless_told(monkeypatch):
    monkeypatch.delenv("NCCL_NVLS_ENABLE", raising=False)
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")
    child = child_environment("/here")
    assert (child["NCCL_NVLS_ENABLE"], child["TORCH_SYMM_MEM_DISABLE_MULTICAST"]) == ("0", "0")
    assert child["PYTHONPATH"].startswith("/here")
