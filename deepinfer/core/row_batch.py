"""What the layers of a forward pass read of its rows, whoever made them."""

from __future__ import annotations

from typing import Protocol

import torch


class RowBatch(Protocol):
    """T rows on the model's device: a `StepBatch` made on the host, or a `DecodeBatch` made on the device."""

    @property
    def token_ids(self) -> torch.Tensor:
        """int64 [T]."""
        ...

    @property
    def positions(self) -> torch.Tensor:
        """int64 [T] absolute position of each row in its sequence."""
        ...

    @property
    def ngram_ids(self) -> torch.Tensor:
        """int64 [T, n] the row's token and its predecessors, nearest first; -1 before the start. n = 0 without
        Engram.
        """
        ...

    @property
    def num_rows(self) -> int:
        """T, without asking the device."""
        ...
