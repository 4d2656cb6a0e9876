"""Holds a checkpoint's headers against the model's name table, before any tensor is read."""

from __future__ import annotations

import re

import torch

from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import CheckpointError
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec
from deepinfer.models.deepseek_v41.weights import tensor_table

# A draft stage may carry copies of the target's embedding and head; the target's own are used.
_IGNORED = re.compile(r"mtp\.\d+\.(embed|head)(\.weight)?")
_SCALE_DTYPES = ("F8_E8M0", "U8")
_MAX_SHOWN = 4


def validate_checkpoint(reader: CheckpointReader, config: DeepSeekV41Config) -> None:
    """Raises CheckpointError unless the checkpoint holds exactly the tensors of `config`.

    Missing, unknown, wrongly typed or wrongly shaped tensors (text, draft and image ones alike) are named with their
    shard, what was expected and what was found. A tied model may hold ``head.weight`` if it equals the embedding.
    """
    entries = reader.entries
    table = {spec.name: spec for spec in tensor_table(config)}
    problems: list[str] = []
    for name, spec in table.items():
        entry = entries.get(name)
        problem = _missing(spec) if entry is None else _mismatch(spec, entry)
        if problem:
            problems.append(problem)
    for name, entry in entries.items():
        if name not in table and not _IGNORED.fullmatch(name) and not _tied_head(name, config):
            problems.append(_unknown(entry, config))
    if problems:
        more = f"\n  ... and {len(problems) - _MAX_SHOWN} more" if len(problems) > _MAX_SHOWN else ""
        raise CheckpointError(
            f"{reader.path}: the tensors do not fit config.json:\n  " + "\n  ".join(problems[:_MAX_SHOWN]) + more
        )
    if config.tie_word_embeddings and "head.weight" in entries:
        _check_tied_head(reader, table["embed.weight"])


def _tied_head(name: str, config: DeepSeekV41Config) -> bool:
    return name == "head.weight" and config.tie_word_embeddings


def _missing(spec: TensorSpec) -> str:
    return f"tensor {spec.name!r} is missing: expected {spec.dtype} {list(spec.shape)}"


def _mismatch(spec: TensorSpec, entry: TensorEntry) -> str | None:
    found = f"{entry.dtype} {list(entry.shape)}"
    where = f"tensor {spec.name!r} in {entry.shard.name}"
    allowed = _SCALE_DTYPES if spec.dtype == "F8_E8M0" else (spec.dtype,)
    if entry.dtype not in allowed:
        note = " (scales are exponent bytes; float scales are refused)" if spec.dtype == "F8_E8M0" else ""
        return f"{where}: expected {' or '.join(allowed)} {list(spec.shape)}, found {found}{note}"
    if entry.shape != spec.shape:
        return f"{where}: expected {spec.dtype} {list(spec.shape)}, found {found}"
    return None


def _unknown(entry: TensorEntry, config: DeepSeekV41Config) -> str:
    hint = ""
    if entry.name.startswith(("vision.", "aligner.", "image_")) and config.vision_config is None:
        hint = " (an image tensor, but config.json has no vision_config)"
    if entry.name.startswith("mtp.") and not config.num_nextn_predict_layers:
        hint = " (a draft tensor, but num_nextn_predict_layers is 0)"
    return f"tensor {entry.name!r} in {entry.shard.name} is unknown{hint}"


def _check_tied_head(reader: CheckpointReader, embedding: TensorSpec) -> None:
    entry = reader.entries["head.weight"]
    problem = _mismatch(TensorSpec(entry.name, embedding.dtype, embedding.shape, "head"), entry)
    if problem:
        raise CheckpointError(f"{reader.path}: {problem}")
    head, embed = reader.mapped("head.weight"), reader.mapped("embed.weight")
    if not torch.equal(head.view(torch.uint8), embed.view(torch.uint8)):
        raise CheckpointError(
            f"{entry.shard}: tensor 'head.weight' differs from 'embed.weight', but config.json says "
            "tie_word_embeddings = true: set it to false, or remove the head"
        )
