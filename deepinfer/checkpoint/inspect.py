"""Counts a model's tensors, bytes, caches and active parameters without loading a weight."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from deepinfer.checkpoint.checkpoint_report import CheckpointReport
from deepinfer.checkpoint.memory_fit import MemoryFit
from deepinfer.checkpoint.reader import CheckpointReader
from deepinfer.checkpoint.shard_index import INDEX_NAME, SINGLE_NAME
from deepinfer.checkpoint.validate import validate_checkpoint
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.core.cache_spec import CacheKind, CacheSpec
from deepinfer.models.deepseek_v41.tensor_spec import TensorSpec
from deepinfer.models.deepseek_v41.weights import GROUPS, tensor_table

Table = tuple[TensorSpec, ...]
# Looked up by row, or outside the text model: no matrix product of a token reads them.
_PASSIVE_GROUPS = ("embed", "engram_tables", "draft", "vision")
_LAYER = re.compile(r"layers\.(\d+)\.(.*)")
_EXPERT = re.compile(r"\.experts\.(\d+)\.")
_CACHE_PROJECTIONS = re.compile(r"hc_attn_fn|attn\.compressor\..*|attn\.indexer\.(wk|k_norm)\..*")


def inspect_checkpoint(
    path: str | Path,
    cache_layout: Callable[[DeepSeekV41Config], tuple[CacheSpec, ...]],
    memory_bytes: int | None = None,
) -> CheckpointReport:
    """Reports on a checkpoint directory, a directory with config.json only, or a config file.

    `cache_layout` gives the cache table of the config (worker/kv_cache.py, which this package lies below). A checkpoint
    is validated against its config first: CheckpointError or ConfigError when something is wrong with either.
    """
    config = DeepSeekV41Config.from_path(path)
    table = tensor_table(config)
    directory = Path(path)
    num_shards = 0
    if any((directory / name).exists() for name in (INDEX_NAME, SINGLE_NAME)):
        with CheckpointReader(directory) as reader:
            validate_checkpoint(reader, config)
            num_shards = len({entry.shard for entry in reader.entries.values()})
    caches = cache_layout(config)
    table_parameters = sum(spec.num_parameters for spec in table if spec.group == "engram_tables")
    text_parameters = sum(
        spec.num_parameters for spec in table if spec.group not in ("engram_tables", "vision", "draft")
    )
    return CheckpointReport(
        path=str(path),
        num_shards=num_shards,
        num_tensors=len(table),
        num_bytes=sum(spec.num_bytes for spec in table),
        bytes_by_dtype=_totals(table, lambda spec: spec.dtype),
        bytes_by_group={group: size for group, size in _group_totals(table).items() if size},
        num_parameters=text_parameters,
        num_table_parameters=table_parameters,
        active_prefill_parameters=sum(_prefill(spec, config) for spec in table),
        active_decode_parameters=sum(_active(spec, config) for spec in table) + _tied_head(config),
        kv_bytes_per_token=_kv_bytes_per_token(caches),
        state_bytes_per_sequence=sum(spec.unit_bytes for spec in caches if not _paged(spec)),
        memory=None if memory_bytes is None else _fit(table, caches, memory_bytes),
    )


def _totals(table: Table, key: Callable[[TensorSpec], str]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for spec in table:
        totals[key(spec)] = totals.get(key(spec), 0) + spec.num_bytes
    return totals


def _group_totals(table: Table) -> dict[str, int]:
    return dict.fromkeys(GROUPS, 0) | _totals(table, lambda spec: spec.group)


def _active(spec: TensorSpec, config: DeepSeekV41Config) -> int:
    """Weights of `spec` that one token multiplies with, on average over the experts."""
    if len(spec.shape) < 2 or spec.group in _PASSIVE_GROUPS:
        return 0
    if spec.group == "routed_experts":
        expert = _EXPERT.search(spec.name)  # the experts are alike: count the first k of them
        return spec.num_parameters if expert and int(expert[1]) < config.num_experts_per_tok else 0
    return spec.num_parameters


def _prefill(spec: TensorSpec, config: DeepSeekV41Config) -> int:
    match = _LAYER.fullmatch(spec.name)
    if match is None:
        return 0
    boundary = config.n_prefill_layer
    layer, rest = int(match[1]), match[2]
    if boundary is None or layer < boundary or (layer == boundary and _CACHE_PROJECTIONS.fullmatch(rest)):
        return _active(spec, config)
    return 0


def _tied_head(config: DeepSeekV41Config) -> int:
    return config.vocab_size * config.hidden_size if config.tie_word_embeddings else 0


def _paged(spec: CacheSpec) -> bool:
    return spec.kind in (CacheKind.MAIN, CacheKind.INDEX)


def _kv_bytes_per_token(caches: tuple[CacheSpec, ...]) -> float:
    return sum(spec.entry_bytes / spec.ratio for spec in caches if _paged(spec))


def _fit(table: Table, caches: tuple[CacheSpec, ...], memory_bytes: int) -> MemoryFit:
    groups = _group_totals(table)
    weights = sum(size for group, size in groups.items() if group != "vision")
    tables = groups["engram_tables"]
    state = sum(spec.unit_bytes for spec in caches if not _paged(spec))
    per_token = _kv_bytes_per_token(caches)

    def tokens(weight_bytes: int) -> int:
        left = memory_bytes - weight_bytes - state
        return max(0, int(left / per_token)) if per_token else 0

    return MemoryFit(
        memory_bytes=memory_bytes,
        weight_bytes=weights,
        table_bytes=tables,
        fits=weights + state <= memory_bytes,
        fits_without_tables=weights - tables + state <= memory_bytes,
        kv_tokens=tokens(weights),
        kv_tokens_without_tables=tokens(weights - tables),
    )
