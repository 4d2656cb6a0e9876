"""Reads and checks the header of one safetensors file, without touching its data."""

from __future__ import annotations

import math
import os
import stat
import struct
from pathlib import Path
from typing import Any, TypeGuard

from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.config.strict_json import MAX_TABLE_BYTES, parse_json_object
from deepinfer.errors import CheckpointError
from deepinfer.shown_value import shown_value

# Bytes per element of every type a header may name.
DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_MAX_DIMENSIONS = 8
_PREFIX = "model."


def read_shard_header(shard: Path) -> list[TensorEntry]:
    """The tensors of a safetensors file, names without ``model.`` prefix.

    Raises CheckpointError naming the file (and the tensor) for anything that is not a complete, consistent file:
    absent, junk, truncated, overlapping or missing data, a name given twice.
    """
    try:
        with shard.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{shard}: not a regular file")
            size = status.st_size
            prefix = file.read(8)
            header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 2 <= header_bytes <= min(size - 8, MAX_TABLE_BYTES):
                raise CheckpointError(f"{shard}: not a safetensors file, or truncated ({size} bytes)")
            text = file.read(header_bytes)
    except OSError as error:
        raise CheckpointError(f"{shard}: cannot be read ({error.strerror})") from error
    header = parse_json_object(text, shard, CheckpointError)
    _check_metadata(shard, header.pop("__metadata__", {}))
    start = 8 + header_bytes
    entries = [_entry(shard, start, name, value) for name, value in header.items()]
    _check_spelling(shard, entries)
    _check_coverage(shard, entries, start, size)
    return entries


def _check_metadata(shard: Path, value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise CheckpointError(f"{shard}: __metadata__ = {shown_value(value)}: expected an object of texts")


def _entry(shard: Path, start: int, name: str, value: Any) -> TensorEntry:
    shown = shown_value(name)
    if not isinstance(value, dict):
        raise CheckpointError(f"{shard}: tensor {shown} has a malformed header entry {shown_value(value)}")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{shard}: tensor {shown} has the unknown type {shown_value(dtype)}")
    if not _sizes(shape) or len(shape) > _MAX_DIMENSIONS or not _sizes(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{shard}: tensor {shown} has a malformed header entry {shown_value(value)}")
    num_bytes = math.prod(shape) * DTYPE_BYTES[dtype]
    if offsets[1] - offsets[0] != num_bytes:
        raise CheckpointError(
            f"{shard}: tensor {shown} of type {dtype} and shape {shape} needs {num_bytes} bytes, "
            f"the header gives it {offsets[1] - offsets[0]}"
        )
    return TensorEntry(name.removeprefix(_PREFIX), dtype, tuple(shape), shard, start + offsets[0], num_bytes)


def _sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_spelling(shard: Path, entries: list[TensorEntry]) -> None:
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise CheckpointError(
                f"{shard}: tensor {shown_value(entry.name)} is stored twice, with and without 'model.' prefix"
            )
        names.add(entry.name)


def _check_coverage(shard: Path, entries: list[TensorEntry], start: int, size: int) -> None:
    """Tensors must fill the data part exactly: no gap, no overlap, nothing behind."""
    position = start
    for entry in sorted(entries, key=lambda entry: (entry.offset, entry.num_bytes)):
        end = entry.offset + entry.num_bytes
        if end > size:
            raise CheckpointError(
                f"{shard}: truncated: tensor {shown_value(entry.name)} ends at byte {end}, the file at {size}"
            )
        if entry.offset != position:
            kind = "overlaps the one before it" if entry.offset < position else "leaves a gap before it"
            raise CheckpointError(
                f"{shard}: tensor {shown_value(entry.name)} {kind} (byte {entry.offset}, expected {position})"
            )
        position = end
    if position != size:
        raise CheckpointError(f"{shard}: {size - position} bytes behind the last tensor belong to none")
