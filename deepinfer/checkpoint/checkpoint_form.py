"""The outer form of a written checkpoint: files, spelling, tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class CheckpointForm(TypedDict, total=False):
    """Keyword arguments of the checkpoint writer.

    Attributes:
        shards: number of safetensors files (1).
        gain: factor on what the random sublayers write into the residual streams (1.0; smaller: calmer).
        tokenizer_json: tokenizer to copy, with the tokenizer_config.json beside it (None: a minimal one is made).
        scale_dtype: type name of the scales, "F8_E8M0" (default) or "U8".
        prefix: put before every tensor name, e.g. "model." ("").
    """

    shards: int
    gain: float
    tokenizer_json: str | Path | None
    scale_dtype: str
    prefix: str
