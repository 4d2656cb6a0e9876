"""Makes transformers' Auto classes know DeepSeek-V4.1: config and tokenizer, never a model or remote code."""

from __future__ import annotations

from typing import Any

import transformers

from deepinfer.config.model_config import DeepSeekV41Config

MODEL_TYPE = "deepseek_v41"


class DeepSeekV41PretrainedConfig(transformers.PretrainedConfig):
    """A V4.1 config.json as transformers sees it: the nested layout as it is, attributes and dicts unchanged."""

    model_type = MODEL_TYPE
    has_no_defaults_at_init = True

    def get_text_config(self, *args: Any, **kwargs: Any) -> DeepSeekV41PretrainedConfig:
        """This config itself: its ``text_config`` stays a plain dict."""
        return self

    def to_deepinfer(self) -> DeepSeekV41Config:
        """The checked config that the engine works with. Raises ConfigError naming a wrong field."""
        added = {**transformers.PretrainedConfig().to_dict(), "_name_or_path": self.name_or_path}
        own = {name: value for name, value in self.to_dict().items() if name not in added or value != added[name]}
        return DeepSeekV41Config.from_dict(own)


def register() -> None:
    """Register config and tokenizer classes for ``model_type`` "deepseek_v41"; idempotent.

    Afterwards ``AutoConfig.from_pretrained`` and ``AutoTokenizer.from_pretrained`` take a checkpoint's directory.
    A transformers release that knows the model type itself keeps its own classes.
    """
    if MODEL_TYPE in transformers.CONFIG_MAPPING:
        return
    transformers.AutoConfig.register(MODEL_TYPE, DeepSeekV41PretrainedConfig)
    transformers.AutoTokenizer.register(
        DeepSeekV41PretrainedConfig, fast_tokenizer_class=transformers.PreTrainedTokenizerFast
    )
