"""Builds the model from a checkpoint directory: validate, read finite values, prove that everything was read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from deepinfer.checkpoint.device_dummy_source import DeviceDummySource
from deepinfer.checkpoint.dummy_source import DummySource
from deepinfer.checkpoint.finite_source import FiniteSource
from deepinfer.checkpoint.pinned_source import PinnedSource
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.tracked_source import TrackedSource
from deepinfer.checkpoint.validate import validate_checkpoint
from deepinfer.checkpoint.validate_vocabulary import validate_vocabulary
from deepinfer.config.byte_size import format_byte_size
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.errors import ConfigError
from deepinfer.models.deepseek_v41.model import DeepSeekV41Model
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.weights import tensor_table
from deepinfer.text.vocabulary_map import compressed_vocabulary
from deepinfer.worker.device import memory_probe
from deepinfer.worker.host_memory import HostMemoryProbe
from deepinfer.worker.load_options import LoadOptions

_EXPERTS: Final = ".ffn.experts."


def load_model(runtime: ModelRuntime, directory: Path, device: torch.device, options: LoadOptions) -> DeepSeekV41Model:
    """The target model with its weights on `device`.

    Args:
        runtime: config, ops, numerics.
        directory: checkpoint directory; tokenizer.json is needed when the model has Engram layers.
        device: where weights go; Engram tables stay on the host.
        options: how they are read.

    Raises CheckpointError naming file and tensor before any compute, also for values that are not finite
    (FiniteSource; Engram tables stay mapped and are not looked through).
    """
    vocabulary, with_drafts = _engram_vocabulary(runtime, directory), options.with_drafts
    if options.load_format == "dummy":
        num_ranks = 1 if runtime.groups is None else runtime.groups.sizes.expert_parallel_size
        _check_dummy_size(runtime.config, with_drafts, device, num_ranks)
        is_host = device.type == "cpu"
        random = DummySource(runtime.config) if is_host else DeviceDummySource(runtime.config, device)
        return DeepSeekV41Model(runtime, random, device, vocabulary, with_drafts)
    with CheckpointReader(directory) as reader:
        validate_checkpoint(reader, runtime.config)
        source = TrackedSource(FiniteSource(reader))
        pins = _pins_tables(runtime.config, device, options.engram_storage) and not _spreads_tables(runtime)
        tables = PinnedSource(source) if pins else source
        model = DeepSeekV41Model(runtime, tables, device, vocabulary, with_drafts)
        if runtime.groups is None:
            source.check(_used_names(runtime.config, with_drafts))
        else:
            own = {name: set(moe.own_experts) for name, moe in model.moes().items()}
            source.check(name for name in _used_names(runtime.config, with_drafts) if _is_own(name, own))
    return model


def _is_own(name: str, own: dict[str, set[int]]) -> bool:
    """Whether this rank reads a tensor. `own`: its experts of each layer and draft stage, by prefix of names."""
    layer, _, expert = name.partition(_EXPERTS)
    return not expert or int(expert.split(".")[0]) in own[layer]


def _spreads_tables(runtime: ModelRuntime) -> bool:
    return runtime.groups is not None and runtime.groups.engram is not None


def _pins_tables(config: DeepSeekV41Config, device: torch.device, engram_storage: str) -> bool:
    if device.type == "cpu" or engram_storage == "disk":
        return False
    needed = sum(spec.num_bytes for spec in tensor_table(config) if spec.group == "engram_tables")
    return engram_storage == "host" or needed <= HostMemoryProbe().free_bytes() // 2


def _check_dummy_size(config: DeepSeekV41Config, with_drafts: bool, device: torch.device, num_ranks: int) -> None:
    """ConfigError unless random weights fit into the device's free memory: no file of that size limits them.

    `num_ranks` share the routed experts.
    """
    used = set(_used_names(config, with_drafts))
    sizes = {spec.name: spec.num_bytes for spec in tensor_table(config) if spec.name in used}
    needed = sum(size // (num_ranks if _EXPERTS in name else 1) for name, size in sizes.items())
    free = memory_probe(device).free_bytes()
    if needed > free:
        raise ConfigError(
            f"load_format = 'dummy': the random weights of this config take {format_byte_size(needed)}, but "
            f"{format_byte_size(free)} are free: use a smaller config"
        )


def _used_names(config: DeepSeekV41Config, with_drafts: bool) -> list[str]:
    """Tensors of the text model: no images, and so no router bias for image tokens; drafts when they are on."""
    unused = ("vision",) if with_drafts else ("draft", "vision")
    return [
        spec.name
        for spec in tensor_table(config)
        if spec.group not in unused and not spec.name.endswith("gate.bias_vl")
    ]


def _engram_vocabulary(runtime: ModelRuntime, directory: Path) -> torch.Tensor | None:
    config = runtime.config
    if not config.has_engram:
        return None
    tokenizer_json = directory / "tokenizer.json"
    compressed = compressed_vocabulary(tokenizer_json, config.vocab_size, config.engram_pad_token_id)
    validate_vocabulary(compressed, config, tokenizer_json)
    return torch.from_numpy(compressed)
