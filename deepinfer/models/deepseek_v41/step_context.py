"""What the layers of one forward pass share: geometry of the step, caches, probe."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.probe import Probe
from deepinfer.core.row_batch import RowBatch
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.kept_rows import KeptRows, cuts_windows
from deepinfer.models.deepseek_v41.ring_rows import RingRows
from deepinfer.models.deepseek_v41.ring_window import RingWindow
from deepinfer.models.deepseek_v41.rope import Rope, RopeTable
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.window_map import WindowMap
from deepinfer.models.deepseek_v41.windows import Windows


@dataclass(slots=True)
class StepContext:
    """Made once per forward pass, read by every layer.

    Attributes:
        batch: the rows that the layers work on.
        caches: all cache tensors.
        probe: research hooks.
        window: sliding-window map, the same for all layers.
        entries: paging map per compression ratio.
        kept: the rows that each ring (window or compressor) keeps, by its number of slots.
        logit_rows: int64 [L] rows of the batch whose final hidden state is wanted; None: all.
        rows: int64 [T] numbers of the batch's rows in the context that this one narrows; None: all of its rows.
        consumer: what the consumer layers work in, when that is not this context (YOCO prefill).
        picks: entry numbers attended to, int64 [T, index_topk], by index source layer; filled by that layer's indexer.
        candidates: candidate blocks int64 [T, blocks] of the candidate source, once it has run.
        features: mean of the streams [T, D] as they enter a draft target layer's attention, by layer.
    """

    batch: RowBatch
    caches: CacheTensors
    probe: Probe
    window: Windows
    entries: dict[int, EntryMap]
    kept: dict[int, RingRows]
    logit_rows: torch.Tensor | None = None
    rows: torch.Tensor | None = None
    consumer: StepContext | None = None
    picks: dict[int, torch.Tensor] = field(default_factory=dict)
    candidates: torch.Tensor | None = None
    features: dict[int, torch.Tensor] = field(default_factory=dict)
    _ropes: dict[int, Rope] = field(default_factory=dict)

    def rope(self, table: RopeTable) -> Rope:
        """(cos, sin) of the batch's rows, looked up once for all layers that share the table."""
        key = id(table)  # tables live as long as the model
        if key not in self._ropes:
            self._ropes[key] = table.at(self.batch.positions)
        return self._ropes[key]

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
    def of_decode(cls, runtime: ModelRuntime, batch: DecodeBatch, caches: CacheTensors) -> StepContext:
        """Context of a decode step whose rows were made on the device; nothing here depends on their values.

        Every decode step sees whole windows and has all its rows in all layers.
        """
        window, ring = runtime.config.sliding_window, caches.window_ring
        block_size, rings = caches.block_size, _compressor_rings(runtime, caches)
        return cls(
            batch=batch,
            caches=caches,
            probe=Probe(),
            window=RingWindow.of_decode(batch, window, ring),
            entries={ratio: EntryMap.of_decode(batch, ratio, block_size, rings[ratio]) for ratio in rings},
            kept={size: RingRows.of_decode(batch, size) for size in caches.ring_sizes},
        )

    @classmethod
    def _over(cls, runtime: ModelRuntime, batch: StepBatch, caches: CacheTensors, probe: Probe) -> StepContext:
        window, ring = runtime.config.sliding_window, caches.window_ring
        block_size, rings = caches.block_size, _compressor_rings(runtime, caches)
        kept = {size: RingRows.build(batch, size) for size in caches.ring_sizes}
        in_place = RingWindow.fits(batch, window, ring)
        return cls(
            batch=batch,
            caches=caches,
            probe=probe,
            window=RingWindow.build(batch, window, ring) if in_place else WindowMap.build(batch, window, kept[ring]),
            entries={ratio: EntryMap.build(batch, ratio, block_size, rings[ratio]) for ratio in rings},
            kept=kept,
            logit_rows=batch.logit_rows,
        )


def _compressor_rings(runtime: ModelRuntime, caches: CacheTensors) -> dict[int, int]:
    """Slots of the compressor rings by compression ratio; 1 for ratio 1, which has none."""
    config = runtime.config
    rings = {plan.ratio: 1 for plan in config.layer_plans if plan.ratio}
    for layer_id, state in caches.compressor.items():
        rings[config.layer_plans[layer_id].ratio] = state.shape[1]
    return rings
