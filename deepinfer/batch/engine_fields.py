"""Which engine options can change a job's results, and which only say where and how fast it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.engine_options import engine_config
from deepinfer.envs import read_environment
from deepinfer.errors import ConfigError, JobError
from deepinfer.ops.select import select_backend

# A job fixes these when it begins; whoever goes on has the same ones.
RESULT_FIELDS: Final = (
    "backend",
    "batch_invariant",
    "block_size",
    "enable_chunked_prefill",
    "generation_config",
    "kv_cache_dtype",
    "load_format",
    "max_model_len",
    "numerics",
    "yoco",
)
# Results do not depend on these: drafts are coupled (batch_invariant), and every row has a seed of its own.
RUN_FIELDS: Final = (
    "context_parallel_size",
    "cpu_isa",
    "data_parallel_size",
    "device",
    "enforce_eager",
    "engram_parallel_size",
    "engram_storage",
    "expert_load_window",
    "expert_parallel_size",
    "expert_rebalance_interval",
    "gpu_memory_utilization",
    "grammar_cache_bytes",
    "grammar_debug",
    "grammar_disable_cache",
    "grammar_threads",
    "grammar_timeout",
    "kv_cache_bytes",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_prefill_chunk",
    "num_redundant_experts",
    "num_threads",
    "overlap",
    "prefill_all_interval",
    "prefill_any_interval",
    "seed",
    "speculative",
    "two_batch_overlap",
)
# What is loaded; its files are told apart by their content.
MODEL_FIELDS: Final = ("model", "revision", "tokenizer")
_GRAMMAR_TIMEOUT: Final = 3600.0  # a clock must not decide what a row's result is


def resolve_fields(given: Mapping[str, Any], model_config: DeepSeekV41Config) -> dict[str, Any]:
    """The options of a new job that can change results, every "auto" made definite.

    Args:
        given: options as `LLM` takes them; absent or None: the environment's default, else the class's.
        model_config: of the checkpoint.

    Raises ConfigError for a wrong value, and for batch_invariant=False: a job cannot be resumed without it.
    """
    if given.get("batch_invariant") is False:
        raise ConfigError("batch_invariant = False: a job needs it, so that a resumed one has the same results")
    config = engine_config({**given, "batch_invariant": True}, {}, read_environment())
    chosen = select_backend(config.backend, config.device, 1, config.cpu_isa, config.numerics, True)
    return result_fields(config.resolve(model_config, chosen.name))


def result_fields(config: EngineConfig) -> dict[str, Any]:
    """The options of a resolved config that can change results, JSON-safe."""
    flat = {**asdict(config.cache), **asdict(config.scheduler), **asdict(config.grammar)}
    values = {name: flat[name] if name in flat else getattr(config, name) for name in RESULT_FIELDS}
    values["numerics"] = config.numerics.value
    values["yoco"] = asdict(config.yoco)
    return values


def run_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given and change no result, JSON-safe."""
    values = {name: given[name] for name in RUN_FIELDS if given.get(name) is not None}
    return {"grammar_timeout": _GRAMMAR_TIMEOUT, **values}


def require_same_fields(config: EngineConfig, wanted: Mapping[str, Any]) -> None:
    """Raise JobError when an engine's options differ from a job's."""
    found = result_fields(config)
    for name in RESULT_FIELDS:
        if found[name] != wanted[name]:
            raise JobError(f"{name} is {found[name]!r} here, but the job began with {wanted[name]!r}")
