"""Where the experts of one layer lie, and how often each is picked, on the device that picks them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer.distributed.arriving_counts import ArrivingCounts
from deepinfer.distributed.expert_placement import ExpertPlacement


class PlaceTable:
    """Tensors that stay where they are: another placement is written over the old one, so that what was captured in a
    graph finds it.

    Args:
        placement: of this layer alone.
        rank: this one's place in the group.
        counts_picks: whether somebody takes counts.
        device: of the rows.
    """

    def __init__(self, placement: ExpertPlacement, rank: int, counts_picks: bool, device: torch.device) -> None:
        self._rank = rank
        self._counts_picks = counts_picks
        self._copies, self._num_copies = (part.to(device) for part in _table(placement))
        self._counts = torch.zeros(placement.num_logical, dtype=torch.int64, device=device)

    def take(self, placement: ExpertPlacement) -> None:
        """Another placement of as many experts in as many places."""
        for own, part in zip((self._copies, self._num_copies), _table(placement), strict=True):
            own.copy_(part)

    def places(self, ids: torch.Tensor) -> torch.Tensor:
        """Physical place int64 [T, k] that serves each pick ids int64 [T, k]: copies take turns over the rows."""
        if self._copies.shape[1] == 1:  # no expert has a second copy
            return self._copies[:, 0][ids]
        turn = torch.arange(ids.shape[0], device=ids.device)[:, None] + self._rank
        return self._copies[ids, turn % self._num_copies[ids]]

    def count(self, ids: torch.Tensor, is_real: torch.Tensor | None = None) -> None:
        """Note the picks ids int64 [T, k]; of rows that are padding, is_real bool [T], none."""
        if not self._counts_picks:
            return
        times = torch.ones_like(ids) if is_real is None else is_real[:, None].expand_as(ids).to(torch.int64)
        self._counts.scatter_add_(0, ids.flatten(), times.flatten())

    @staticmethod
    def take_counts(tables: Sequence[PlaceTable]) -> ArrivingCounts:
        """Picks of each expert since the last call, by layer: int64 [tables, num_experts]. One transfer."""
        counts = [table._counts for table in tables]
        taken = ArrivingCounts(torch.stack(counts))
        for count in counts:
            count.zero_()
        return taken


def _table(placement: ExpertPlacement) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of each expert, and how many it has."""
    places, counts = placement.logical_to_physical[0], placement.replica_counts[0]
    return torch.from_numpy(places.copy()), torch.from_numpy(counts.copy())
