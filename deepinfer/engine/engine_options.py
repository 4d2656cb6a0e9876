"""Where an engine's options come from: arguments first, then the environment, then defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepinfer.config.engine_config import EngineConfig
from deepinfer.engine.foreign_options import drop_foreign_options
from deepinfer.envs import EnvReport
from deepinfer.logging import get_logger, set_level, show_by_default

logger = get_logger(__name__)


def engine_config(options: Mapping[str, Any], others: Mapping[str, Any], environment: EnvReport) -> EngineConfig:
    """The validated options of an engine.

    Args:
        options: known options; None means "not given".
        others: further names a caller passed.
        environment: gives defaults of options that were not given; its log level is applied.

    Raises TypeError for an unknown name, ConfigError or UnsupportedFeatureError for a wrong value.
    """
    environment.raise_errors()
    show_by_default()
    if "log_level" in environment.settings:
        set_level(environment.settings["log_level"])
    for warning in environment.warnings:
        logger.warning(warning)
    given = {name: value for name, value in options.items() if value is not None}
    return EngineConfig.create(**{**environment.fields, **given}, **drop_foreign_options(others))
