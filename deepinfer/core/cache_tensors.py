"""The allocated caches that a forward pass reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.cache_spec import VectorFormat


@dataclass(frozen=True, slots=True)
class VectorCache:
    """One cache of vectors.

    Attributes:
        data: uint8 [units, entries, bytes]; a unit is a block (paged) or a state slot (ring).
        format: how a vector is stored in `bytes`.
    """

    data: torch.Tensor
    format: VectorFormat

    @property
    def num_entries(self) -> int:
        return self.data.shape[1]


@dataclass(frozen=True, slots=True)
class CacheTensors:
    """Every cache, keyed by owning layer. Filled by worker/kv_cache.py.

    Attributes:
        main: compressed key=value entries, per KV source layer.
        index: index keys, per KV source layer.
        window: sliding-window rings, per layer.
        compressor: float32 [slots, ring, 2 (score, value), head_dim] per ratio-2 KV source layer.
        block_size: original tokens per block.
    """

    main: dict[int, VectorCache]
    index: dict[int, VectorCache]
    window: dict[int, VectorCache]
    compressor: dict[int, torch.Tensor]
    block_size: int

    @property
    def window_ring(self) -> int:
        """Slots of the window rings, the same for all layers."""
        return next(iter(self.window.values())).num_entries

    @property
    def ring_sizes(self) -> set[int]:
        """Slots of the window and compressor rings."""
        return {cache.num_entries for cache in self.window.values()} | {s.shape[1] for s in self.compressor.values()}
