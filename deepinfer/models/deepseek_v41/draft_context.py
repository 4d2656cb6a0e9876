"""Geometry of one draft pass: where the blocks stand and which keys they see."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from deepinfer.core.cache_tensors import CacheTensors, VectorCache
from deepinfer.core.draft_anchors import DraftAnchors
from deepinfer.core.probe import Probe
from deepinfer.models.deepseek_v41.rope import Rope, RopeTable


@dataclass(frozen=True, slots=True)
class DraftContext:
    """R requests with a block of G rows each. Tensors int64 on the model's device.

    The workspace of keys is [context ring rows of request 0 | its block | context of request 1 | ...], each request
    with `window` context places (absent ones before the start hold nothing) and G block places.

    Attributes:
        caches: all cache tensors; the draft windows are keyed behind the target layers.
        probe: records nothing: rows of a draft pass are no rows of the step.
        positions: [R * G] position of each block row: P + 1 .. P + G.
        context_slots: [R, W] state slot, and
        context_positions: [R, W] position P - W + 1 .. P, negative before the start.
        key_index: [R * G, W + G] workspace rows that each block row attends to, -1 for absent.
        block_rows: [R * G] workspace row of each block row, and
        block_places: [R * G] zeros: a workspace is a cache of units with one entry.
        is_real: bool [R * G] rows of requests that are no padding, as in `StepContext`.
    """

    caches: CacheTensors
    probe: Probe
    positions: torch.Tensor
    context_slots: torch.Tensor
    context_positions: torch.Tensor
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
        context = last_positions[:, None] + torch.arange(1 - window, 1, device=device)
        places = torch.arange(num_requests, device=device)[:, None] * (window + block)
        keys = places + torch.arange(window + block, device=device)
        visible = torch.cat((context >= 0, torch.ones_like(context[:, :1]).bool().expand(-1, block)), dim=1)
        key_index = torch.where(visible, keys, -1)
        positions = last_positions[:, None] + torch.arange(1, block + 1, device=device)
        return cls(
            caches=caches,
            probe=Probe(),
            positions=positions.reshape(-1),
            context_slots=anchors.state_slots[:, None].expand(-1, window),
            context_positions=context,
            key_index=key_index.repeat_interleave(block, dim=0),
            block_rows=keys[:, window:].reshape(-1),
            block_places=torch.zeros_like(positions).view(-1),
            is_real=None if is_real is None else is_real.repeat_interleave(block),
        )

    def gather(self, cache: VectorCache) -> VectorCache:
        """A workspace with the context keys from a ring; those of the blocks are to be stored."""
        num_requests, window = self.context_slots.shape
        num_keys, num_bytes = self.key_index.shape[1], cache.data.shape[2]
        workspace = cache.data.new_empty((num_requests, num_keys, num_bytes))
        workspace[:, :window] = cache.data[self.context_slots, self.context_positions % cache.num_entries]
        return VectorCache(workspace.view(-1, 1, num_bytes), cache.format)
