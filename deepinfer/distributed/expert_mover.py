"""Moves the weights of one layer's experts between ranks and places."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deepinfer.distributed.expert_move import ExpertMove
from deepinfer.distributed.layer_shuffle import LayerShuffle
from deepinfer.distributed.rank_comm import RankComm


class ExpertMover:
    """Everything that is read is read before anything is written, so a place may give and take in one shuffle.

    Args:
        comm: the ranks.
        num_slots: places of a layer on one rank.
    """

    def __init__(self, comm: RankComm, num_slots: int) -> None:
        self._comm = comm
        self._num_slots = num_slots

    def run(self, shuffle: LayerShuffle, weights: Sequence[torch.Tensor]) -> None:
        """Carry out a shuffle; all ranks of the group do so together.

        Args:
            shuffle: of the layer.
            weights: [slots, ...] each, of any dtype: what an expert consists of.
        """
        sends, receives, writes = [], [], []
        for move in shuffle.transfers:
            sender, source = divmod(move.source, self._num_slots)
            receiver, target = divmod(move.target, self._num_slots)
            if sender == self._comm.rank:
                sends.append((receiver, _packed(weights, source)))
            if receiver == self._comm.rank:
                buffer = torch.empty_like(_packed(weights, target))
                receives.append((sender, buffer))
                writes.append((target, buffer))
        writes += [(target, _packed(weights, source)) for source, target in self._inside(shuffle.copies)]
        self._comm.move(sends, receives)
        for target, data in writes:
            _unpack(data, weights, target)
        for source, target in self._inside(shuffle.duplicates):
            _unpack(_packed(weights, source), weights, target)

    def _inside(self, moves: Sequence[ExpertMove]) -> list[tuple[int, int]]:
        """Slots (source, target) of moves inside this rank."""
        first = self._comm.rank * self._num_slots
        own = [move for move in moves if first <= move.target < first + self._num_slots]
        return [(move.source - first, move.target - first) for move in own]


def _packed(weights: Sequence[torch.Tensor], slot: int) -> torch.Tensor:
    """A copy of one expert's bytes, uint8 [n]."""
    return torch.cat([tensor[slot].view(torch.uint8).flatten() for tensor in weights])


def _unpack(data: torch.Tensor, weights: Sequence[torch.Tensor], slot: int) -> None:
    parts = data.split([tensor[slot].numel() * tensor.element_size() for tensor in weights])
    for tensor, part in zip(weights, parts, strict=True):
        target = tensor[slot].view(torch.uint8)
        target.copy_(part.view(target.shape))
