"""Finds every tensor of a checkpoint directory: one file, or an index and its shards."""

from __future__ import annotations

import os
from pathlib import Path

from deepinfer.checkpoint.shard_header import read_shard_header
from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.config.strict_json import MAX_TABLE_BYTES, read_json_object, shown_path
from deepinfer.errors import CheckpointError
from deepinfer.shown_value import shown_value

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"


def locate_tensors(directory: Path) -> dict[str, TensorEntry]:
    """Name -> place of every tensor, from the shards' headers alone.

    Raises CheckpointError naming file and tensor when there is no checkpoint, a shard is missing or broken, one tensor
    lies in two shards, or index and shards disagree.
    """
    if not os.path.isdir(directory):
        raise CheckpointError(f"{shown_path(directory)}: no such directory; expected a checkpoint directory")
    index = directory / INDEX_NAME
    if not os.path.isfile(index):
        single = directory / SINGLE_NAME
        if not os.path.isfile(single):
            raise CheckpointError(f"{directory}: neither {INDEX_NAME} nor {SINGLE_NAME} is there")
        return {entry.name: entry for entry in read_shard_header(single)}
    weight_map = _read_weight_map(index)
    found = _read_shards(directory, weight_map, index)
    _compare(weight_map, found, index)
    return found


def _read_weight_map(index: Path) -> dict[str, str]:
    stored = read_json_object(index, CheckpointError, MAX_TABLE_BYTES).get("weight_map")
    if not isinstance(stored, dict) or not all(isinstance(shard, str) for shard in stored.values()):
        raise CheckpointError(f"{index}: expected an object with a weight_map of tensor name to file name")
    weight_map: dict[str, str] = {}
    for name, shard in stored.items():
        bare = name.removeprefix("model.")
        if bare in weight_map:
            raise CheckpointError(f"{index}: tensor {shown_value(bare)} is listed with and without 'model.' prefix")
        if not _is_plain_name(shard):
            wrong = f"tensor {shown_value(name)} names the file {shown_value(shard)}"
            raise CheckpointError(f"{index}: {wrong}, expected a plain file name")
        weight_map[bare] = shard
    return weight_map


def _is_plain_name(name: str) -> bool:
    """Whether it names a file in the index's own directory, on any usual file system."""
    return Path(name).name == name and name not in ("", ".", "..") and "\0" not in name and len(name.encode()) <= 255


def _read_shards(directory: Path, weight_map: dict[str, str], index: Path) -> dict[str, TensorEntry]:
    found: dict[str, TensorEntry] = {}
    for shard in sorted(set(weight_map.values())):
        path = directory / shard
        if not os.path.isfile(path):
            name = next(name for name, file in weight_map.items() if file == shard)
            raise CheckpointError(f"{path}: missing; {index.name} says that it holds {shown_value(name)} and others")
        for entry in read_shard_header(path):
            other = found.get(entry.name)
            if other is not None:
                raise CheckpointError(
                    f"tensor {shown_value(entry.name)} is stored twice: in {other.shard} and in {path}"
                )
            found[entry.name] = entry
    return found


def _compare(weight_map: dict[str, str], found: dict[str, TensorEntry], index: Path) -> None:
    for name, shard in weight_map.items():
        entry = found.get(name)
        if entry is None:
            raise CheckpointError(
                f"{index.parent / shard}: lacks tensor {shown_value(name)} that {index.name} says it holds"
            )
        if entry.shard.name != shard:
            raise CheckpointError(
                f"{index}: tensor {shown_value(name)} is said to be in {shard}, found in {entry.shard.name}"
            )
    for name, entry in found.items():
        if name not in weight_map:
            raise CheckpointError(f"{entry.shard}: holds tensor {shown_value(name)}, which {index.name} does not list")
