"""Geometry of one draft pass: where the blocks stand and which keys they see."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from deepinfer.core.cache_tensors import CacheTensors, VectorCache
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.rope import Rope, RopeTable
from deepinfer.ops.contract import Ops


@dataclass(frozen=True, slots=True)
class DraftContext:
    """R requests with a block of G rows each. Tensors int64 on the model's device.

    The workspace of keys is [context ring rows of request 0 | its block | context of request 1 | ...], each request
    with `window` context places (absent ones before the start hold nothing) and G block places.

    Attributes:
        caches: all cache tensors; the draft windows are keyed behind the target layers.
        probe: records nothing: rows of a draft pass are no rows of the step.
        positions: [R * G] position of each block row: P + 1 .. P + G.
        ring_places: [R * (W + G)] place in the rings, slot * ring + p % ring, of each workspace row: of positions
            P - W + 1 .. P + G. Those before the start and those of the block have some place that exists.
        key_index: [R * G, W + G] workspace rows that each block row attends to, -1 for absent.
        block_rows: [R * G] workspace row of each block row, and
        block_places: [R * G] zeros: a workspace is a cache of units with one entry.
        is_real: bool [R * G] rows of requests that are no padding, as in `StepContext`.
    """

    caches: CacheTensors
    probe: Probe
    positions: torch.Tensor
    ring_places: torch.Tensor
    key_index: torch.Tensor
    block_rows: torch.Tensor
    block_places: torch.Tensor
    is_real: torch.Tensor | None = None
    _ropes: dict[int, Rope] = field(default_factory=dict)

    def rope(self, table: RopeTable) -> Rope:
        """(cos, sin) of the block rows, looked up once for all stages."""
        if id(table) not in self._ropes:  # tables live as long as the model
            self._ropes[id(table)] = table.at(self.positions)
        return self._ropes[id(table)]

    @classmethod
    def build(cls, anchors: DraftAnchors, caches: CacheTensors, sizes: tuple[int, int]) -> DraftContext:
        """For R requests; `sizes` = (window, block size)."""
        window, block = sizes
        last_positions, is_real = anchors.last_positions, anchors.is_real
        device, num_requests = last_positions.device, last_positions.shape[0]
        at = last_positions[:, None] + torch.arange(1 - window, block + 1, device=device)
        keys = torch.arange(num_requests * (window + block), device=device).view(at.shape)
        positions, ring = at[:, window:].reshape(-1), caches.window_ring
        return cls(
            caches=caches,
            probe=Probe(),
            positions=positions,
            ring_places=(anchors.state_slots[:, None] * ring + at % ring).view(-1),
            key_index=torch.where(at >= 0, keys, -1).repeat_interleave(block, dim=0),
            block_rows=keys[:, window:].reshape(-1),
            block_places=torch.zeros_like(positions),
            is_real=None if is_real is None else is_real.repeat_interleave(block),
        )

    def gather(self, cache: VectorCache, ops: Ops) -> VectorCache:
        """A workspace with the context keys from a ring; those of the blocks are to be stored over what is there."""
        return VectorCache(ops.gather_rows(cache.data.flatten(0, 1), self.ring_places).unsqueeze(1), cache.format)
