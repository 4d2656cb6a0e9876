"""Writes safetensors files with the type names that the published checkpoint uses, and their index."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import torch

from deepinfer.checkpoint.shard_index import INDEX_NAME, SINGLE_NAME

StoredTensors = Mapping[str, tuple[str, torch.Tensor]]


def write_shard(path: Path, tensors: StoredTensors) -> None:
    """Writes one file; `tensors`: name -> (safetensors type name, tensor of that element size)."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, (dtype, tensor) in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in tensors.values():
            file.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def write_shards(directory: Path, tensors: StoredTensors, shards: int) -> None:
    """Splits `tensors` over `shards` files of about equal numbers of tensors and writes the index."""
    names = list(tensors)
    count = max(1, -(-len(names) // shards))
    weight_map: dict[str, str] = {}
    for number in range(shards):
        part = names[number * count : (number + 1) * count]
        file = SINGLE_NAME if shards == 1 else f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        write_shard(directory / file, {name: tensors[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for _, tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / INDEX_NAME).write_text(json.dumps(index, indent=1), encoding="utf-8")
