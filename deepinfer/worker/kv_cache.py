"""Every cache of the engine and its layout, in one table; and the memory behind it."""

from __future__ import annotations

import numpy as np
import torch

from deepinfer.config.cache_config import check_block_size, resolve_kv_cache_dtype
from deepinfer.config.model_config import DeepSeekV41Config
from deepinfer.config.numerics import Numerics
from deepinfer.core.cache_spec import CacheKind, CacheSpec, KVRounding, VectorFormat
from deepinfer.core.cache_tensors import CacheTensors, VectorCache

_PAGED = (CacheKind.MAIN, CacheKind.INDEX)


def cache_table(
    config: DeepSeekV41Config, numerics: Numerics, kv_cache_dtype: str, block_size: int, num_drafts: int = 0
) -> tuple[CacheSpec, ...]:
    """One row per cache (spec/model.md 6).

    | kind | owner | unit | entries | vector |
    |---|---|---|---|---|
    | MAIN | KV source layers | block | block_size / ratio | head_dim: Q4/16e ("fp4") or Q8/32 ("fp8") |
    | INDEX | KV source layers | block | block_size / ratio | index_head_dim: Q4/32 |
    | WINDOW | every layer; draft layers with drafts on | state slot | sliding_window + rollback | head_dim: Q8/32 |
    | COMPRESSOR | KV sources with ratio > 1 | state slot | ratio + max(0, rollback - 1) | fp32 score and value |

    rollback = num_drafts + 1 with drafts, else 0. "float32" keeps the same rounded values as fp32 numbers; with
    `numerics` FP32 nothing is rounded. Raises ConfigError for a dtype or block size that does not fit.
    """
    formats = _formats(config, numerics, resolve_kv_cache_dtype(kv_cache_dtype, numerics))
    check_block_size(block_size, config)
    rollback = num_drafts + 1 if num_drafts else 0
    table: list[CacheSpec] = []
    for plan in config.layer_plans:
        if plan.owns_kv:
            for kind in _PAGED:
                table.append(CacheSpec(kind, plan.layer_id, plan.ratio, block_size // plan.ratio, formats[kind]))
            if plan.ratio > 1:
                ring = plan.ratio + max(0, rollback - 1)
                table.append(CacheSpec(CacheKind.COMPRESSOR, plan.layer_id, 1, ring, formats[CacheKind.COMPRESSOR]))
    num_windows = config.num_hidden_layers + (config.num_nextn_predict_layers if num_drafts else 0)
    ring = config.sliding_window + rollback
    for layer_id in range(num_windows):
        table.append(CacheSpec(CacheKind.WINDOW, layer_id, 1, ring, formats[CacheKind.WINDOW]))
    return tuple(table)


def _formats(config: DeepSeekV41Config, numerics: Numerics, dtype: str) -> dict[CacheKind, VectorFormat]:
    roundings = {
        CacheKind.MAIN: KVRounding.FP8_GROUP32 if dtype == "fp8" else KVRounding.FP4_GROUP16,
        CacheKind.INDEX: KVRounding.FP4_GROUP32,
        CacheKind.WINDOW: KVRounding.FP8_GROUP32,
    }
    formats = {CacheKind.COMPRESSOR: VectorFormat(config.head_dim, KVRounding.NONE, packed=False)}
    for kind, rounding in roundings.items():
        dim = config.index_head_dim if kind is CacheKind.INDEX else config.head_dim
        formats[kind] = VectorFormat(dim, rounding if numerics.quantize else KVRounding.NONE, dtype != "float32")
    return formats


def block_bytes(table: tuple[CacheSpec, ...]) -> int:
    """Bytes of one block over all paged caches."""
    return sum(spec.unit_bytes for spec in table if spec.kind in _PAGED)


def slot_bytes(table: tuple[CacheSpec, ...]) -> int:
    """Bytes of one sequence's fixed state: window and compressor rings."""
    return sum(spec.unit_bytes for spec in table if spec.kind not in _PAGED)


def table_block_size(table: tuple[CacheSpec, ...]) -> int | None:
    """Original tokens per block; None for a window-only model, which has no paged cache."""
    return next((spec.num_entries * spec.ratio for spec in table if spec.kind in _PAGED), None)


def allocate_caches(
    table: tuple[CacheSpec, ...],
    num_blocks: int,
    num_slots: int,
    device: torch.device | str = "cpu",
    *,
    has_spare_slot: bool | None = None,
) -> CacheTensors:
    """Zeroed tensors for the table. On a CPU the pages are touched (and counted by the system) on first use only.

    With `has_spare_slot` the compressor rings have a slot behind the `num_slots` of the scheduler: rows that are there
    to pad a step write into it. (Padding is not stored in any other cache.) None: on a GPU.
    """
    pools: dict[CacheKind, dict[int, VectorCache]] = {kind: {} for kind in CacheKind}
    compressor: dict[int, torch.Tensor] = {}
    spare_slots = torch.device(device).type == "cuda" if has_spare_slot is None else has_spare_slot
    for spec in table:
        units = num_blocks if spec.kind in _PAGED else num_slots
        if spec.kind is CacheKind.COMPRESSOR:
            units += spare_slots
        data = _zeros((units, spec.num_entries, spec.entry_bytes), torch.device(device))
        if spec.kind is CacheKind.COMPRESSOR:
            shape = (units, spec.num_entries, 2, spec.format.dim)
            compressor[spec.layer_id] = data.view(torch.float32).view(shape)
        else:
            pools[spec.kind][spec.layer_id] = VectorCache(data, spec.format)
    return CacheTensors(
        main=pools[CacheKind.MAIN],
        index=pools[CacheKind.INDEX],
        window=pools[CacheKind.WINDOW],
        compressor=compressor,
        block_size=table_block_size(table) or 1,
    )


def _zeros(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, dtype=np.uint8))  # calloc: untouched pages cost nothing
    return torch.zeros(shape, dtype=torch.uint8, device=device)
