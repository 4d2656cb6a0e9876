"""DeepInfer: offline inference for DeepSeek-V4.1-Flash. Names load on first use: importing this imports no torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepinfer.config.engine_config import EngineConfig
    from deepinfer.config.model_config import DeepSeekV41Config
    from deepinfer.config.numerics import Numerics
    from deepinfer.engine.prefix_handle import PrefixHandle
    from deepinfer.errors import (
        CheckpointError,
        ConfigError,
        DeepInferError,
        EngineClosedError,
        RequestError,
        UnsupportedFeatureError,
    )
    from deepinfer.llm import LLM
    from deepinfer.outputs import (
        CompletionOutput,
        DraftConfidence,
        Logprob,
        RequestDelta,
        RequestFailure,
        RequestMetrics,
        RequestOutput,
        ToolCall,
        ToolCallDelta,
    )
    from deepinfer.sampling_params import SamplingParams

__version__ = "0.1.0"

_HOMES = {
    "LLM": "deepinfer.llm",
    "SamplingParams": "deepinfer.sampling_params",
    "EngineConfig": "deepinfer.config.engine_config",
    "DeepSeekV41Config": "deepinfer.config.model_config",
    "Numerics": "deepinfer.config.numerics",
    "PrefixHandle": "deepinfer.engine.prefix_handle",
    **dict.fromkeys(
        (
            "CompletionOutput",
            "DraftConfidence",
            "Logprob",
            "RequestDelta",
            "RequestFailure",
            "RequestMetrics",
            "RequestOutput",
            "ToolCall",
            "ToolCallDelta",
        ),
        "deepinfer.outputs",
    ),
    **dict.fromkeys(
        (
            "CheckpointError",
            "ConfigError",
            "DeepInferError",
            "EngineClosedError",
            "RequestError",
            "UnsupportedFeatureError",
        ),
        "deepinfer.errors",
    ),
}

__all__ = [
    "LLM",
    "CheckpointError",
    "CompletionOutput",
    "ConfigError",
    "DeepInferError",
    "DeepSeekV41Config",
    "DraftConfidence",
    "EngineClosedError",
    "EngineConfig",
    "Logprob",
    "Numerics",
    "PrefixHandle",
    "RequestDelta",
    "RequestError",
    "RequestFailure",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "ToolCall",
    "ToolCallDelta",
    "UnsupportedFeatureError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'deepinfer' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
