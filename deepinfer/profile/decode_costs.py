"""The cost curves an engine works with: given, guessed, kept from an earlier start, or measured now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deepinfer.config.cost_curves import CostCurves
from deepinfer.config.engine_config import EngineConfig
from deepinfer.logging import get_logger
from deepinfer.profile.curve_cache import CurveCache
from deepinfer.profile.curve_key import curve_key
from deepinfer.profile.curve_timer import time_curve
from deepinfer.profile.guessed_costs import guessed_costs
from deepinfer.worker.pinned_torch import pinned_torch
from deepinfer.worker.worker import Worker

logger = get_logger(__name__)

_STEP_SECONDS: Final = 2.0
_DRAFT_SECONDS: Final = 0.7
_LIFETIME: Final = 3600.0


def decode_costs(
    config: EngineConfig, checkpoint_config: Path, worker: Worker, settings: Mapping[str, Any]
) -> CostCurves | None:
    """None where every draft is to be verified.

    Args:
        config: resolved engine options.
        checkpoint_config: the model's config.json.
        worker: idle; steps are timed on it.
        settings: `cost_cache_dir` and `cost_cache_seconds` of the environment, where the options leave them open.
    """
    source = config.speculative.curve_source
    if source is None or worker.profiler is None:
        return None
    if source == "guess":
        return guessed_costs(worker.profiler.max_rows, worker.profiler.max_seqs)
    if source != "measure":
        return source
    with pinned_torch(config.num_threads):  # timed and named as the engine's own steps run
        return _kept_or_measured(config, checkpoint_config, worker, settings)


def _kept_or_measured(
    config: EngineConfig, checkpoint_config: Path, worker: Worker, settings: Mapping[str, Any]
) -> CostCurves:
    directory = config.speculative.cost_cache_dir or settings.get("cost_cache_dir")
    if not directory:
        return _measured(worker)
    seconds = config.speculative.cost_cache_seconds
    cache = CurveCache(Path(directory), settings.get("cost_cache_seconds", _LIFETIME) if seconds is None else seconds)
    key = curve_key(checkpoint_config, worker.device, _settings(config, worker))
    curves = cache.load(key)
    if curves is None:
        curves = _measured(worker)
        cache.store(key, curves)
    return curves


def _measured(worker: Worker) -> CostCurves:
    profiler = worker.profiler
    assert profiler is not None
    step = time_curve(profiler.step_ms, profiler.max_rows, _STEP_SECONDS, padded_sizes=profiler.row_sizes)
    draft = time_curve(profiler.draft_ms, profiler.max_seqs, _DRAFT_SECONDS)
    logger.info(
        "decode steps take %.2f ms with 1 row and %.2f ms with %d; drafting takes %.2f ms for 1 sequence",
        step[0][1],
        step[-1][1],
        step[-1][0],
        draft[0][1],
    )
    return CostCurves(step, draft)


def _settings(config: EngineConfig, worker: Worker) -> dict[str, Any]:
    profiler = worker.profiler
    assert profiler is not None
    return {
        "numerics": config.numerics.value,
        "backend": config.backend,
        "kv_cache_dtype": config.cache.kv_cache_dtype,
        "block_size": config.cache.block_size,
        "batch_invariant": config.batch_invariant,
        "max_model_len": config.scheduler.max_model_len,
        "num_drafts": config.speculative.num_drafts,
        "max_rows": profiler.max_rows,
        "enforce_eager": config.enforce_eager,
    }
