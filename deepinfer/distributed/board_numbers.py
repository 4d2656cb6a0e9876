"""Numbers from other ranks, on their way over a `NumberBoard`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.distributed.number_board import NumberBoard


@dataclass(frozen=True, slots=True)
class BoardNumbers:
    """What `InFlight` is for tensors.

    Attributes:
        board: where they will be.
        round: of the board.
        shape: of what every rank has put there: its first axis says for whom.
        rank: this one.
    """

    board: NumberBoard
    round: int
    shape: torch.Size
    rank: int

    def wait(self) -> torch.Tensor:
        """What every rank has for this one, of the same shape as what this one has for every rank."""
        everything = torch.from_numpy(self.board.take(self.round, self.shape.numel()))
        return everything.view(self.shape[0], *self.shape)[:, self.rank]
