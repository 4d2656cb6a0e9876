"""What the layers of one forward pass share: geometry of the step, caches, probe."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.probe import Probe
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.kept_rows import KeptRows, cuts_windows
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.window_map import WindowMap


@dataclass(slots=True)
class StepContext:
    """Made once per forward pass, read by every layer.

    Attributes:
        batch: the rows that the layers work on.
        caches: all cache tensors.
        probe: research hooks.
        window: sliding-window map, the same for all layers.
        entries: paging map per compression ratio.
        rows: int64 [T] numbers of the batch's rows in the context that this one narrows; None: all of its rows.
        consumer: what the consumer layers work in, when that is not this context (YOCO prefill).
        picks: entry numbers attended to, int64 [T, index_topk], by index source layer; filled by that layer's indexer.
        candidates: candidate blocks int64 [T, blocks] of the candidate source, once it has run.
        features: mean of the streams [T, D] as they enter a draft target layer's attention, by layer.
    """

    batch: StepBatch
    caches: CacheTensors
    probe: Probe
    window: WindowMap
    entries: dict[int, EntryMap]
    rows: torch.Tensor | None = None
    consumer: StepContext | None = None
    picks: dict[int, torch.Tensor] = field(default_factory=dict)
    candidates: torch.Tensor | None = None
    features: dict[int, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def build(cls, runtime: ModelRuntime, batch: StepBatch, caches: CacheTensors, probe: Probe) -> StepContext:
        """Context of a step; with one of its own for the consumer layers where YOCO changes anything for them."""
        ctx = cls._over(runtime, batch, caches, probe)
        if runtime.yoco_mode != "off" and cuts_windows(batch, runtime.config.sliding_window):
            kept = KeptRows.compact(batch) if runtime.yoco_mode == "compact" else KeptRows.masked(batch)
            ctx.consumer = cls._over(
                runtime, kept.batch, caches, probe if kept.rows is None else probe.narrowed(kept.rows)
            )
            ctx.consumer.rows = kept.rows
        return ctx

    @classmethod
    def _over(cls, runtime: ModelRuntime, batch: StepBatch, caches: CacheTensors, probe: Probe) -> StepContext:
        config = runtime.config
        rings = {plan.ratio: 1 for plan in config.layer_plans if plan.ratio}
        for layer_id, state in caches.compressor.items():
            rings[config.layer_plans[layer_id].ratio] = state.shape[1]
        return cls(
            batch=batch,
            caches=caches,
            probe=probe,
            window=WindowMap.build(batch, config.sliding_window, caches),
            entries={ratio: EntryMap.build(batch, ratio, caches.block_size, ring) for ratio, ring in rings.items()},
        )
