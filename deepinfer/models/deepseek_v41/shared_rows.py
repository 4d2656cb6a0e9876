"""One rank's rows of a step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.step_batch import StepBatch
from deepinfer.models.deepseek_v41.row_share import RowShare


@dataclass(frozen=True, slots=True)
class SharedRows:
    """See `RowBatch`.

    Attributes:
        token_ids, positions, ngram_ids: of the rank's own rows.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    ngram_ids: torch.Tensor

    @classmethod
    def of(cls, batch: StepBatch, share: RowShare) -> SharedRows:
        """Of a step's rows, as they are shared out."""
        return cls(share.of(batch.token_ids), share.of(batch.positions), share.of(batch.ngram_ids))

    @property
    def num_rows(self) -> int:
        """Own rows; may be 0."""
        return self.token_ids.shape[0]
