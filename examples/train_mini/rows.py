"""Packed rows of token ids, and batches of them."""

from __future__ import annotations

import numpy as np
import torch

MUTE = 1 << 15  # this bit of a stored id: the token carries no loss
_SHORTEST_REST = 24  # ids of a document that are worth a place in the next row

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Rows:
    """Shuffled batches of rows uint16 [n, T + 1], for ever; each pass has an order of its own."""

    def __init__(self, array: np.ndarray, device: torch.device, seed: int = 0) -> None:
        self._rows = torch.from_numpy(array.astype(np.int32)).to(device)
        self._generator = torch.Generator().manual_seed(seed)
        self._order, self._next = torch.randperm(len(array), generator=self._generator), 0

    def batch(self, size: int) -> Batch:
        """Tokens, labels int64 [size, T] and weights float32 [size, T]."""
        if self._next + size > len(self._order):
            self._order, self._next = torch.randperm(len(self._rows), generator=self._generator), 0
        chosen = self._order[self._next : self._next + size].to(self._rows.device)
        self._next += size
        return split_rows(self._rows[chosen])


def split_rows(rows: torch.Tensor) -> Batch:
    """int32 [n, T + 1] -> tokens, labels, weights [n, T]."""
    ids = (rows & (MUTE - 1)).long()
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), ((rows[:, 1:] & MUTE) == 0).float()


class RowPacker:
    """Fills rows of a fixed length; a document that would be cut early starts the next row instead."""

    def __init__(self, length: int) -> None:
        """length: ids of a row, T + 1."""
        self._length = length
        self._rows: list[list[int]] = []
        self._current: list[int] = []

    def add(self, ids: list[int]) -> None:
        """One document."""
        while ids:
            room = self._length - len(self._current)
            self._current += ids[:room]
            if len(ids) <= room:
                ids = []
            elif len(self._current) == min(len(ids), room) or room >= self._length // 3:
                ids = ids[room:] if len(ids) - room >= _SHORTEST_REST else []
            # else it begins again in the next row
            if len(self._current) >= self._length:
                self._rows.append(self._current)
                self._current = []

    def rows(self, limit: int | None = None) -> np.ndarray:
        """uint16 [n, length] of the full rows, at most `limit`."""
        return np.array(self._rows[:limit], dtype=np.uint16).reshape(-1, self._length)
