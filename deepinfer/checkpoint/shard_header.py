"""Reads and checks the header of one safetensors file, without touching its data."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any, TypeGuard

from deepinfer.checkpoint.tensor_entry import TensorEntry
from deepinfer.errors import CheckpointError

# Bytes per element of every type a header may name.
DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_MAX_HEADER_BYTES = 100_000_000
_PREFIX = "model."


def read_shard_header(shard: Path) -> list[TensorEntry]:
    """The tensors of a safetensors file, names without ``model.`` prefix.

    Raises CheckpointError naming the file (and the tensor) for anything that is not a complete, consistent file:
    absent, junk, truncated, overlapping or missing data, a name given twice.
    """
    try:
        size = shard.stat().st_size
        with shard.open("rb") as file:
            prefix = file.read(8)
            header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 2 <= header_bytes <= min(size - 8, _MAX_HEADER_BYTES):
                raise CheckpointError(f"{shard}: not a safetensors file, or truncated ({size} bytes)")
            text = file.read(header_bytes)
    except OSError as error:
        raise CheckpointError(f"{shard}: cannot be read ({error.strerror})") from error
    header = _parse_header(shard, text)
    start = 8 + header_bytes
    entries = [_entry(shard, start, name, value) for name, value in header.items() if name != "__metadata__"]
    _check_spelling(shard, entries)
    _check_coverage(shard, entries, start, size)
    return entries


def _parse_header(shard: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) != len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(f"{shard}: the header names {double!r} twice")
        return values

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{shard}: not a safetensors file (its header is no UTF-8 JSON: {error})") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{shard}: not a safetensors file (its header is no JSON object)")
    return header


def _entry(shard: Path, start: int, name: str, value: Any) -> TensorEntry:
    if not isinstance(value, dict):
        raise CheckpointError(f"{shard}: tensor {name!r} has a malformed header entry {value!r}")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if dtype not in DTYPE_BYTES:
        raise CheckpointError(f"{shard}: tensor {name!r} has the unknown type {dtype!r}")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2:
        raise CheckpointError(f"{shard}: tensor {name!r} has a malformed header entry {value!r}")
    num_bytes = math.prod(shape) * DTYPE_BYTES[dtype]
    if offsets[1] - offsets[0] != num_bytes:
        raise CheckpointError(
            f"{shard}: tensor {name!r} of type {dtype} and shape {shape} needs {num_bytes} bytes, "
            f"the header gives it {offsets[1] - offsets[0]}"
        )
    return TensorEntry(name.removeprefix(_PREFIX), dtype, tuple(shape), shard, start + offsets[0], num_bytes)


def _sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_spelling(shard: Path, entries: list[TensorEntry]) -> None:
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise CheckpointError(f"{shard}: tensor {entry.name!r} is stored twice, with and without 'model.' prefix")
        names.add(entry.name)


def _check_coverage(shard: Path, entries: list[TensorEntry], start: int, size: int) -> None:
    """Tensors must fill the data part exactly: no gap, no overlap, nothing behind."""
    position = start
    for entry in sorted(entries, key=lambda entry: (entry.offset, entry.num_bytes)):
        end = entry.offset + entry.num_bytes
        if end > size:
            raise CheckpointError(f"{shard}: truncated: tensor {entry.name!r} ends at byte {end}, the file at {size}")
        if entry.offset != position:
            kind = "overlaps the one before it" if entry.offset < position else "leaves a gap before it"
            raise CheckpointError(f"{shard}: tensor {entry.name!r} {kind} (byte {entry.offset}, expected {position})")
        position = end
    if position != size:
        raise CheckpointError(f"{shard}: {size - position} bytes behind the last tensor belong to none")
