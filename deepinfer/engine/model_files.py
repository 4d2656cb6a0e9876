"""What an engine reads of a checkpoint beside its weights: config, tokenizer, generation defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deepinfer.config.engine_config import EngineConfig
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.engine.generation_defaults import GenerationDefaults
from deepinfer.engine.model_path import resolve_model_path
from deepinfer.envs import EnvReport
from deepinfer.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Made by `read`.

    Attributes:
        directory: of the checkpoint.
        model_config: its config.
        tokenizer: its own, or another one that was asked for.
        defaults: what its generation_config.json says.
    """

    directory: Path
    model_config: DeepSeekV41Config
    tokenizer: Tokenizer
    defaults: GenerationDefaults

    @classmethod
    def read(cls, config: EngineConfig, environment: EnvReport) -> ModelFiles:
        """Read the files that the options name. Raises ConfigError or CheckpointError that names the wrong one."""
        directory = resolve_model_path(config.model, config.revision)
        model_config = DeepSeekV41Config.from_path(directory)
        if model_config.has_engram:
            environment.check_model({"engram_pad_token_id": model_config.engram_pad_token_id})
        tokenizer_path = (
            directory if config.tokenizer is None else resolve_model_path(config.tokenizer, None, "tokenizer")
        )
        tokenizer = Tokenizer.from_path(tokenizer_path, model_config.bos_token_id, model_config.vocab_size)
        use_params = config.generation_config == "auto"
        defaults = GenerationDefaults.read(directory, use_params=use_params, vocab_size=model_config.vocab_size)
        return cls(directory, model_config, tokenizer, defaults)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Ids that end a sequence: those of config.json, then those of generation_config.json."""
        return tuple(dict.fromkeys((*self.model_config.eos_token_ids, *self.defaults.eos_token_ids)))

    @property
    def num_valid_ids(self) -> int:
        """Ids that are tokens of the text."""
        return min(self.tokenizer.size, self.model_config.vocab_size)
