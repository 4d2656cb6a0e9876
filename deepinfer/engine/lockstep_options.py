"""Options of an engine whose steps meet those of other ranks."""

from __future__ import annotations

from dataclasses import replace

from deepinfer.config.engine_config import EngineConfig
from deepinfer.errors import UnsupportedFeatureError


def lockstep_options(config: EngineConfig) -> EngineConfig:
    """The options as given, with what steps of several ranks cannot do turned off: overlapped steps.

    Raises UnsupportedFeatureError for what was asked for all the same.
    """
    if config.overlap:
        raise UnsupportedFeatureError("overlap = True: ranks that share experts do not overlap steps yet; leave it out")
    if config.speculative.curve_source == "measure":
        raise UnsupportedFeatureError(
            "speculative: ranks that share experts cannot time steps at their start; set cost_curve to a file, or "
            "varlen to False"
        )
    return replace(config, overlap=False)
