"""Checks that a tokenizer yields the compressed vocabulary the Engram tables were trained with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import CheckpointError


def validate_vocabulary(compressed: np.ndarray, config: DeepSeekV41Config, tokenizer_json: str | Path) -> None:
    """Raises CheckpointError unless `compressed` (int64 [vocab_size], compressed id of every token id) has as many
    different ids as ``engram_compressed_vocab_size`` says. Nothing is required without Engram layers.
    """
    if not config.has_engram:
        return
    size = int(compressed.max()) + 1
    if size != config.engram_compressed_vocab_size:
        raise CheckpointError(
            f"{tokenizer_json}: gives a compressed vocabulary of {size} ids, config.json says "
            f"text_config.engram_compressed_vocab_size = {config.engram_compressed_vocab_size}: "
            "the tokenizer is not the one this checkpoint was trained with"
        )
