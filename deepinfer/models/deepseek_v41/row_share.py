"""Which rows of a prefill step each rank of a replica computes (context parallelism)."""

from __future__ import annotations

import math

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
from deepinfer.distributed.rank_comm import RankComm


class RowShare:
    """Every rank knows all rows of the step, computes its own, and gets what it needs of the others by `gather`.

    Args:
        comm: the ranks.
        owners: int64 [T] the rank that computes each row.
        device: where rows are computed.
    """

    def __init__(self, comm: RankComm, owners: np.ndarray, device: torch.device) -> None:
        self._comm = comm
        self._owners = owners
        self._device = device
        self._own = np.flatnonzero(owners == comm.rank)
        self._counts = np.bincount(owners, minlength=comm.size).tolist()
        places = np.empty(len(owners), dtype=np.int64)
        places[np.argsort(owners, kind="stable")] = np.arange(len(owners))  # rank by rank, rows ascending
        self._own_rows, self._places = device_arrays(device, self._own, places)

    @classmethod
    def zigzag(cls, comm: RankComm, lengths: np.ndarray, device: torch.device) -> RowShare:
        """Each sequence is cut into 2 c pieces, of which rank r takes the r-th from the front and the r-th from the
        back: as many rows, and as much to look back on, for every rank (spec/engine.md 5.3).

        Args:
            lengths: int64 [S] rows of each sequence; any, also fewer than pieces.
        """
        size = -(-lengths // (2 * comm.size))
        first_rows = np.cumsum(lengths) - lengths
        offsets = np.arange(lengths.sum()) - np.repeat(first_rows, lengths)
        pieces = offsets // np.repeat(size, lengths)
        return cls(comm, np.minimum(pieces, 2 * comm.size - 1 - pieces), device)

    @property
    def num_all(self) -> int:
        """T."""
        return len(self._owners)

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """The own rows of `values` [T, ...]."""
        return values[self._own_rows]

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        """[T, ...] from every rank's own rows `values` [n, ...]. All ranks call this together."""
        width = math.prod(values.shape[1:])
        rows = values.contiguous().view(values.shape[0], width).view(torch.uint8)
        everyone = self._comm.gather_rows(rows.view(values.shape[0], width * values.element_size()), self._counts)
        return everyone.view(values.dtype).view(self.num_all, *values.shape[1:])[self._places]

    def narrowed(self, rows: torch.Tensor) -> RowShare:
        """The same shares of some rows alone, int64 [n] ascending, which are then numbered anew."""
        return RowShare(self._comm, self._owners[rows.cpu().numpy()], self._device)

    def own_places(self, rows: torch.Tensor) -> torch.Tensor:
        """Places among the own rows, int64 [m], of those of `rows`, int64 [n] ascending, that are own ones."""
        (places,) = device_arrays(self._device, np.flatnonzero(np.isin(self._own, rows.cpu().numpy())))
        return places
