"""What the layers of one forward pass share: geometry of the step, caches, probe."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from deepinfer.core.cache_tensors import CacheTensors
from deepinfer.core.probe import Probe
from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.entry_map import EntryMap
from deepinfer.models.deepseek_v41.window_map import WindowMap


@dataclass(slots=True)
class StepContext:
    """Made once per forward pass, read by every layer.

    Attributes:
        batch: the step's rows.
        caches: all cache tensors.
        probe: research hooks.
        window: sliding-window map, the same for all layers.
        entries: paging map per compression ratio.
        picks: entry numbers attended to, int64 [T, index_topk], by index source layer; filled by that layer's indexer.
        features: mean of the streams [T, D] as they enter a draft target layer's attention, by layer.
        candidates: candidate blocks int64 [T, blocks] of the candidate source, once it has run.
    """

    batch: StepBatch
    caches: CacheTensors
    probe: Probe
    window: WindowMap
    entries: dict[int, EntryMap]
    picks: dict[int, torch.Tensor] = field(default_factory=dict)
    candidates: torch.Tensor | None = None
    features: dict[int, torch.Tensor] = field(default_factory=dict)
