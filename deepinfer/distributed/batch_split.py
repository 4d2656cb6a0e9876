"""Which steps of ranks that share experts are computed in two halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from deepinfer.core.half_point import half_point

# Rows in each half from which it pays; doc/wide_ep.md has the figures. On CPUs measured. On GPUs, with V4.1-Flash's
# shapes, the host does not keep up with less than 1,024; and both halves read a layer's experts, which on 2, 4 and 8
# ranks takes longer than rows on NVLink up to 4,020, 1,220 and 490 rows. On 2 ranks twice that, as 4,096 did not pay;
# on more as many of all ranks together.
_LEAST_ROWS: Final = {"cpu": 256, "cuda": 1024}
_ROWS_OF_ALL: Final = {"cpu": 0, "cuda": 16384}


class BatchSplit:
    """Every rank of a lock step keeps one, and feeds it before a step with what all ranks say: so all split it or none.

    Attributes:
        is_on: whether the step at hand is computed in halves.

    Args:
        mode: `ParallelConfig.two_batch_overlap`.
        num_ranks: that share the experts; with 1 nothing would be on its way, and no step is split.
        device_type: "cpu" or "cuda".
        num_sharing: ranks of a replica, of which each computes a share of a prefill step's rows.
    """

    def __init__(self, mode: str, num_ranks: int, device_type: str, num_sharing: int = 1) -> None:
        self.is_on = False
        self._num_sharing = num_sharing
        self._min_rows: int | None = None
        if num_ranks > 1:
            enough = max(_LEAST_ROWS[device_type], _ROWS_OF_ALL[device_type] // num_ranks)
            self._min_rows = {"on": 1, "auto": enough}.get(mode)

    def vote(self, lengths: np.ndarray) -> int:
        """What this rank says, of the rows int [S] of its sequences: how many it computes of the smaller half."""
        if self._min_rows is None:
            return 0
        first = int(lengths[: half_point(lengths)].sum())
        return -(-min(first, int(lengths.sum()) - first) // self._num_sharing)

    def agree(self, votes: Sequence[int]) -> None:
        """Everybody's votes. One rank with enough rows in both halves is enough: it is the one that all wait for."""
        self.is_on = self._min_rows is not None and max(votes) >= self._min_rows
