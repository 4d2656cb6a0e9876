"""The outer form of a written checkpoint: files, spelling, tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from deepinfer.config.field_error import field_error
from deepinfer.config.field_reader import is_finite_number
from deepinfer.config.size_limits import check_range

_MAX_SHARDS = 99_999  # file names have five digits


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


def check_form(form: CheckpointForm) -> None:
    """Raises ConfigError naming the argument that is wrong."""
    check_range("shards", form.get("shards", 1), 1, _MAX_SHARDS)
    gain = form.get("gain", 1.0)
    if not is_finite_number(gain) or gain < 0:
        raise field_error("gain", gain, "a finite number >= 0")
    if form.get("scale_dtype", "F8_E8M0") not in ("F8_E8M0", "U8"):
        raise field_error("scale_dtype", form["scale_dtype"], "F8_E8M0 or U8")
    if not isinstance(form.get("prefix", ""), str):
        raise field_error("prefix", form["prefix"], "a text")
