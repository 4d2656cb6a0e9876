"""What the layers of one forward pass share: geometry of the step, caches, probe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.decode_batch import DecodeBatch
from deepinfer.core.probe import Probe
from deepinfer.core.row_batch import RowBatch
from deepinfer.core.step_batch import StepBatch
from deepinfer.core.step_geometry import StepGeometry
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.kept_rows import KeptRows, cuts_windows
from deepinfer.models.deepseek_v41.ring_rows import RingRows
from deepinfer.models.deepseek_v41.ring_window import RingWindow
from deepinfer.models.deepseek_v41.rope import Rope, RopeTable, RopeTables
from deepinfer.models.deepseek_v41.row_share import RowShare
from deepinfer.models.deepseek_v41.runtime import ModelRuntime
from deepinfer.models.deepseek_v41.shared_rows import SharedRows
from deepinfer.models.deepseek_v41.window_map import WindowMap
from deepinfer.models.deepseek_v41.windows import Windows


@dataclass(slots=True)
class StepContext:
    """Made once per forward pass, read by every layer.

    Attributes:
        batch: the rows that the layers work on: queries, residual streams. With `share` this rank's own ones.
        caches: all cache tensors.
        probe: research hooks.
        window: sliding-window map, the same for all layers.
        entries: paging map per compression ratio.
        kept: the rows that each ring (window or compressor) keeps, by its number of slots.
        logit_rows: int64 [L] rows of the batch whose final hidden state is wanted; None: all.
        rows: int64 [T] numbers of the batch's rows in the context that this one narrows; None: all of its rows.
        share: how ranks share the step's rows; None where this one has all. Caches get the entries of all rows on every
            rank, so what they are made from is gathered.
        all_positions: int64 [all rows of the step].
        consumer: what the consumer layers work in, when that is not this context (YOCO prefill).
        picks: entry numbers attended to, int64 [T, index_topk], by index source layer; filled by that layer's indexer.
        candidates: candidate blocks int64 [T, blocks] of the candidate source, once it has run.
        is_real: bool [T] rows that are no padding, where the batch has as many rows on every rank; None: all, and other
            ranks may have others.
        keeps_draft_context: whether the rows leave the draft model its context, if there is one.
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
    share: RowShare | None = None
    all_positions: torch.Tensor | None = None
    consumer: StepContext | None = None
    picks: dict[int, torch.Tensor] = field(default_factory=dict)
    candidates: torch.Tensor | None = None
    is_real: torch.Tensor | None = None
    keeps_draft_context: bool = True
    features: dict[int, torch.Tensor] = field(default_factory=dict)
    _ropes: dict[int, Rope] = field(default_factory=dict)
    _key_ropes: dict[int, Rope] = field(default_factory=dict)
    _entry_ropes: dict[int, Rope] = field(default_factory=dict)
    _ngrams: torch.Tensor | None = None

    @property
    def num_all_rows(self) -> int:
        """Rows of the step on all ranks that share them."""
        return self.batch.num_rows if self.share is None else self.share.num_all

    def gathered(self, values: torch.Tensor) -> torch.Tensor:
        """Values of all rows of the step [all rows, ...] from those of the batch's [T, ...]."""
        return values if self.share is None else self.share.gather(values)

    def key_rope(self, table: RopeTable) -> Rope:
        """(cos, sin) of all rows of the step, as `rope`."""
        if self.all_positions is None:
            return self.rope(table)
        if id(table) not in self._key_ropes:
            self._key_ropes[id(table)] = table.at(self.all_positions)
        return self._key_ropes[id(table)]

    def rope(self, table: RopeTable) -> Rope:
        """(cos, sin) of the batch's rows, looked up once for all layers that share the table."""
        key = id(table)  # tables live as long as the model
        if key not in self._ropes:
            self._ropes[key] = table.at(self.batch.positions)
        return self._ropes[key]

    def entry_rope(self, table: RopeTable, ratio: int) -> Rope:
        """(cos, sin) of a ratio's new entries, looked up once for all layers that make some."""
        if ratio not in self._entry_ropes:
            self._entry_ropes[ratio] = table.at(self.entries[ratio].new_positions)
        return self._entry_ropes[ratio]

    def compressed_ngrams(self, vocab: torch.Tensor, pad_token_id: int) -> torch.Tensor:
        """Engram's ids int64 [T, n] of each row's token and its predecessors, looked up once for all its layers.

        Args:
            vocab: int64 [V] the map of tokens, the model's.
            pad_token_id: token that stands where there is none.
        """
        if self._ngrams is None:
            ids = self.batch.ngram_ids
            self._ngrams = torch.where(ids >= 0, vocab[ids.clamp(min=0)], vocab[pad_token_id])
        return self._ngrams

    @classmethod
    def build(
        cls,
        runtime: ModelRuntime,
        batch: StepBatch,
        caches: CacheTensors,
        probe: Probe,
        share: RowShare | None = None,
    ) -> StepContext:
        """Context of a step; with one of its own for the consumer layers where YOCO changes anything for them."""
        ctx = cls._over(runtime, batch, caches, probe)
        if runtime.yoco_mode != "off" and cuts_windows(batch, runtime.config.sliding_window):
            kept = KeptRows.compact(batch) if runtime.yoco_mode == "compact" else KeptRows.masked(batch)
            ctx.consumer = cls._over(
                runtime, kept.batch, caches, probe if kept.rows is None else probe.narrowed(kept.rows)
            )
            ctx.consumer.rows = kept.rows
            if share is not None:
                ctx.consumer._share_kept(kept, share)
        if share is not None:
            ctx._share_rows(batch, share)
        return ctx

    def _share_kept(self, kept: KeptRows, share: RowShare) -> None:
        """Compute only those of the consumer's rows that `share` of the whole step gives to this rank."""
        own = share if kept.rows is None else share.narrowed(kept.rows)
        self.rows = None if kept.rows is None else share.own_places(kept.rows)
        self._share_rows(kept.batch, own)

    def _share_rows(self, batch: StepBatch, share: RowShare) -> None:
        """Compute only this rank's rows of `batch`: what queries see is narrowed, what caches get is not."""
        self.share, self.all_positions, self.batch = share, batch.positions, SharedRows.of(batch, share)
        self.window = self.window.narrowed(share.of(self.window.window_index))
        self.entries = {
            ratio: replace(
                entries, first_block=share.of(entries.first_block), num_visible=share.of(entries.num_visible)
            )
            for ratio, entries in self.entries.items()
        }

    @classmethod
    def of_decode(
        cls,
        runtime: ModelRuntime,
        batch: DecodeBatch,
        caches: CacheTensors,
        ropes: RopeTables,
        compressed_vocab: torch.Tensor | None,
    ) -> StepContext:
        """Context of a decode step whose rows were made on the device; nothing here depends on their values.

        Every decode step sees whole windows and has all its rows in all layers.
        """
        config, geometry = runtime.config, _geometry(runtime, batch, caches)
        vocab = None if compressed_vocab is None else (compressed_vocab, config.engram_pad_token_id)
        tables = ((ropes.window.cos, ropes.window.sin), (ropes.compressed.cos, ropes.compressed.sin))
        maps = runtime.ops.map_rows(batch, geometry, tables, vocab)
        kept = {geometry.window_ring: RingRows(None, maps.slots, maps.window_places)}
        kept |= {ring: RingRows(None, maps.slots, maps.entries[r].ring_places) for r, ring in geometry.entry_rings}
        return cls(
            batch=batch,
            caches=caches,
            probe=Probe(),
            window=RingWindow(maps.slots, maps.window_places, maps.window_index),
            entries={ratio: EntryMap.of_decode(batch, maps, ratio) for ratio in maps.entries},
            kept=kept,
            is_real=None if runtime.groups is None else batch.rows.seqs >= 0,
            keeps_draft_context=batch.keeps_draft_context,
            _ropes={id(ropes.window): maps.window_rope, id(ropes.compressed): maps.rope},
            _entry_ropes={ratio: places.rope for ratio, places in maps.entries.items()},
            _ngrams=maps.ngrams,
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


def _geometry(runtime: ModelRuntime, batch: DecodeBatch, caches: CacheTensors) -> StepGeometry:
    return StepGeometry(
        window=runtime.config.sliding_window,
        window_ring=caches.window_ring,
        block_size=caches.block_size,
        entry_rings=tuple(sorted(_compressor_rings(runtime, caches).items())),
        max_len=batch.max_len,
        topk=runtime.config.index_topk,
    )


def _compressor_rings(runtime: ModelRuntime, caches: CacheTensors) -> dict[int, int]:
    """Slots of the compressor rings by compression ratio; 1 for ratio 1, which has none."""
    config = runtime.config
    rings = {plan.ratio: 1 for plan in config.layer_plans if plan.ratio}
    for layer_id, state in caches.compressor.items():
        rings[config.layer_plans[layer_id].ratio] = state.shape[1]
    return rings
