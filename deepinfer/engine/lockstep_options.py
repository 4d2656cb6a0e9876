"""Options of an engine whose steps meet those of other ranks."""

from __future__ import annotations

from dataclasses import replace

from deepinfer.config.engine_config import EngineConfig
from deepinfer.errors import UnsupportedFeatureError


def lockstep_options(config: EngineConfig) -> EngineConfig:
    """The options as given, with what steps of several ranks cannot do turned off: overlapped steps where the ranks of
    a replica get their plans from its first.

    Raises UnsupportedFeatureError for what was asked for all the same.
    """
    shares_plans = config.parallel.context_parallel_size > 1
    if config.overlap and shares_plans:
        raise UnsupportedFeatureError("overlap = True: steps of context_parallel_size > 1 do not overlap; leave it out")
    if config.speculative.curve_source == "measure":
        raise UnsupportedFeatureError(
            "speculative: ranks that share experts cannot time steps at their start; set cost_curve to a file, or "
            "varlen to False"
        )
    return replace(config, overlap=False) if shares_plans else config
