"""Writes random checkpoints of any V4.1 config in the published format: for tests, research and dry runs."""

from __future__ import annotations

import copy
import fnmatch
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import torch

from deepinfer.checkpoint.checkpoint_form import CheckpointForm, check_form
from deepinfer.checkpoint.random_tensors import RandomTensors
from deepinfer.checkpoint.random_tokenizer import write_random_tokenizer, write_tokenizer_config
from deepinfer.checkpoint.shard_writer import write_shards
from deepinfer.checkpoint.weight_quantizers import to_stored
from deepinfer.config.engram_primes import engram_primes
from deepinfer.config.field_reader import FieldReader
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.size_limits import MAX_ENGRAM_LOOKUPS, SIZE_LIMITS, check_range
from deepinfer.errors import ConfigError
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec
from deepinfer.models.deepseek_v41.weights import tensor_table
from deepinfer.text.vocabulary_map import compressed_vocabulary

Overrides = Mapping[str, torch.Tensor | float]
_TORCH_DTYPES = {
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.uint8,
    "I8": torch.uint8,
}


def write_random_checkpoint(
    config: dict[str, Any],
    path: str | Path,
    *,
    seed: int = 0,
    overrides: Overrides | None = None,
    **form: Unpack[CheckpointForm],
) -> DeepSeekV41Config:
    """Writes config.json, tokenizer, safetensors and index into the directory `path` (made when absent).

    Args:
        config: nested published config; ``engram_num_embeddings`` and ``engram_compressed_vocab_size`` are set to
            what the written tokenizer and the hash rule give.
        seed: of the random weights.
        overrides: tensor name or shell pattern -> one number, or a tensor. Float tensors are values: [out, in], also
            for FP8 and FP4 matrices, which are then quantized with their scale; tensors in the stored dtype (FP4 codes
            and scales as uint8) are written as they are. Later entries win.
        form: number of shards, gain, tokenizer, spelling (see CheckpointForm).

    Returns the parsed config that was written. Raises ConfigError for a wrong config or override.
    """
    check_form(form)
    vocab_size = FieldReader(config).section("text_config").integer("vocab_size")
    check_range("text_config.vocab_size", vocab_size, 4, SIZE_LIMITS["vocab_size"])
    directory = Path(path)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = _write_tokenizer(directory, vocab_size, form.get("tokenizer_json"))
    values = complete_engram_fields(config, tokenizer)
    parsed = DeepSeekV41Config.from_dict(values)
    random = RandomTensors(parsed, seed, form.get("gain", 1.0))
    prefix, scale_dtype = form.get("prefix", ""), form.get("scale_dtype", "F8_E8M0")
    tensors = {
        prefix + name: (scale_dtype if dtype == "F8_E8M0" else dtype, tensor)
        for name, (dtype, tensor) in _stored_tensors(parsed, random, overrides or {}).items()
    }
    write_shards(directory, tensors, form.get("shards", 1))
    (directory / "config.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
    return parsed


def complete_engram_fields(config: dict[str, Any], tokenizer_json: str | Path) -> dict[str, Any]:
    """A copy of `config` whose Engram sizes follow from its other fields and the tokenizer, as the loader checks."""
    values = copy.deepcopy(config)
    text = values["text_config"]
    layers = text.get("engram_layer_ids")
    if not layers:
        return values
    reader = FieldReader(text, "text_config")
    orders, heads = reader.integer("engram_max_ngram_size", minimum=2) - 1, reader.integer("engram_n_heads")
    num_tables = len(reader.integers("engram_layer_ids"))
    check_range("engram lookups of a token in all layers", orders * heads * num_tables, 1, MAX_ENGRAM_LOOKUPS)
    minimum = reader.integer("engram_vocab_size")
    check_range("text_config.engram_vocab_size", minimum, 1, SIZE_LIMITS["engram_vocab_size"])
    tables = engram_primes(minimum, orders, heads, num_tables)
    text["engram_num_embeddings"] = [sum(sum(order) for order in table) for table in tables]
    compressed = compressed_vocabulary(
        tokenizer_json, reader.integer("vocab_size"), reader.integer("engram_pad_token_id", minimum=0)
    )
    text["engram_compressed_vocab_size"] = int(compressed.max()) + 1
    return values


def _write_tokenizer(directory: Path, vocab_size: int, tokenizer_json: str | Path | None) -> Path:
    if tokenizer_json is None:
        return write_random_tokenizer(directory, vocab_size)
    source = Path(tokenizer_json)
    target = directory / "tokenizer.json"
    shutil.copyfile(source, target)
    settings = source.with_name("tokenizer_config.json")
    if settings.is_file():
        shutil.copyfile(settings, directory / settings.name)
    else:
        write_tokenizer_config(directory)
    return target


def _stored_tensors(
    config: DeepSeekV41Config, random: RandomTensors, overrides: Overrides
) -> dict[str, tuple[str, torch.Tensor]]:
    table = {spec.name: spec for spec in tensor_table(config)}
    if config.tie_word_embeddings and "head.weight" in overrides:  # a tied model may carry a copy of the embedding
        table["head.weight"] = TensorSpec("head.weight", "BF16", (config.vocab_size, config.hidden_size), "head")
    chosen = _match_overrides(overrides, list(table))
    stored: dict[str, tuple[str, torch.Tensor]] = {}
    for name, spec in table.items():
        if name.endswith(".scale") and name not in chosen:
            continue  # written with its matrix
        override = chosen.get(name)
        tensor, scales = _override(override, spec) if override is not None else to_stored(random.values(spec), spec)
        stored[name] = (spec.dtype, tensor)
        scale_name = name.removesuffix(".weight") + ".scale"
        if scales is not None and scale_name not in chosen:
            stored[scale_name] = ("F8_E8M0", scales)
    missing = sorted(set(table) - set(stored))
    if missing:
        raise ConfigError(f"overrides: codes were given without their scales {missing[0]!r}: expected both")
    return {name: stored[name] for name in table}


def _match_overrides(overrides: Overrides, names: list[str]) -> dict[str, torch.Tensor | float]:
    chosen: dict[str, torch.Tensor | float] = {}
    for pattern, value in overrides.items():
        matches = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        if not matches:
            raise ConfigError(f"overrides: {pattern!r} matches no tensor of the model")
        chosen |= dict.fromkeys(matches, value)
    return chosen


def _override(value: torch.Tensor | float, spec: TensorSpec) -> tuple[torch.Tensor, torch.Tensor | None]:
    dtype = _TORCH_DTYPES[spec.dtype]
    shape = (spec.shape[0], 2 * spec.shape[1]) if spec.dtype == "I8" else spec.shape
    if not isinstance(value, torch.Tensor):
        if spec.dtype == "F8_E8M0":
            return torch.full(spec.shape, int(value), dtype=torch.uint8), None
        return to_stored(torch.full(shape, float(value)), spec)
    if value.dtype == dtype and tuple(value.shape) == spec.shape and spec.dtype not in ("BF16", "F32"):
        return value.contiguous(), None
    if not value.dtype.is_floating_point or tuple(value.shape) != shape or spec.dtype == "F8_E8M0":
        raise ConfigError(
            f"overrides: {spec.name!r} = {value.dtype} {list(value.shape)}: "
            f"expected float {list(shape)} or {dtype} {list(spec.shape)}"
        )
    return to_stored(value.float(), spec)
