"""Trained parameters to a checkpoint directory in the published format, and back."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch

from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.shard_writer import write_shards
from deepinfer.checkpoint.weight_quantizers import to_stored
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.models.deepseek_v41.weights import tensor_table
from deepinfer.ops.reference.dequantize_fp8_group32 import dequantize_fp8_group32
from deepinfer.ops.reference.dequantize_weight import dequantize_weight
from examples.train_mini.parameters import Parameters

_FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")
_EXPERT = re.compile(r"(.*\.ffn\.experts)\.(\d+)\.(w[123])\.weight")


def export_checkpoint(values: dict[str, Any], parameters: Parameters, data: Path, out: Path) -> None:
    """Write a directory that the engine loads: quantized tensors, config, and the tokenizer of `data`.

    Args:
        values: the nested config.
        parameters: as `initial_parameters` names them.
        data: has the tokenizer's files.
        out: made when absent.
    """
    stored: dict[str, tuple[str, torch.Tensor]] = {}
    for spec in tensor_table(DeepSeekV41Config.from_dict(values)):
        if spec.name.endswith(".scale"):
            continue  # written with its matrix
        tensor, scales = to_stored(_values(parameters, spec.name).detach().float().cpu(), spec)
        stored[spec.name] = (spec.dtype, tensor)
        if scales is not None:
            stored[spec.name.removesuffix("weight") + "scale"] = ("F8_E8M0", scales)
    out.mkdir(parents=True, exist_ok=True)
    write_shards(out, stored, 1)
    (out / "config.json").write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name in _FILES:
        shutil.copy(data / name, out / name)


def restore_parameters(directory: Path) -> Parameters:
    """Values of an exported checkpoint, float32: those that the trainer rounded to."""
    parameters: Parameters = {}
    experts: dict[str, list[torch.Tensor]] = {}
    with CheckpointReader(directory) as reader:
        for spec in tensor_table(DeepSeekV41Config.from_path(directory)):
            if spec.name.endswith((".scale", "gate.bias_vl")):
                continue
            values = _read(reader, spec.name, spec.dtype)
            found = _EXPERT.fullmatch(spec.name)
            if found is None:
                parameters[spec.name] = values
            else:
                experts.setdefault(f"{found[1]}.{found[3]}", []).append(values)
    return parameters | {name: torch.stack(matrices) for name, matrices in experts.items()}


def _values(parameters: Parameters, name: str) -> torch.Tensor:
    found = _EXPERT.fullmatch(name)
    if found is not None:
        return parameters[f"{found[1]}.{found[3]}"][int(found[2])]
    if name.endswith("_fn"):
        return parameters[name].to(torch.bfloat16)  # stored as float32; the trainer multiplied in bf16
    return parameters[name.removesuffix("_vl")]


def _read(reader: CheckpointReader, name: str, dtype: str) -> torch.Tensor:
    codes = reader.tensor(name)
    if dtype not in ("F8_E4M3", "I8"):
        return codes.float()
    scales = reader.tensor(name.removesuffix("weight") + "scale").view(torch.uint8)
    if name.endswith("engram.embed.weight"):
        return dequantize_fp8_group32(codes, scales)
    form = WeightFormat.FP8_BLOCK32 if dtype == "F8_E4M3" else WeightFormat.FP4_ROW32
    return dequantize_weight(QuantizedWeight(codes if dtype == "F8_E4M3" else codes.view(torch.uint8), scales, form))
