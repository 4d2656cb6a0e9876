"""The input of a decode step's forward pass when it was made on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from deepinfer.core.decode_rows import DecodeRows


@dataclass(frozen=True, slots=True)
class DecodeBatch:
    """Rows padded to a fixed number T, of sequences of which the host knows no more than a bound of their lengths.
    Filled by `resolve_rows`; read by the model as a `RowBatch`.

    Attributes:
        rows: the rows and their sequences.
        offsets: int64 [T] number of each row within its sequence.
        ngram_ids: int64 [T, n] each row's token and its predecessors; n = 0 without Engram.
        block_ids: int64 [B] block tables, one behind the other; what lies behind the last one is never looked at.
        max_len: python int, positions of all rows are below it.
        keeps_draft_context: whether the rows leave the draft model its context, if there is one.
    """

    rows: DecodeRows
    offsets: torch.Tensor
    ngram_ids: torch.Tensor
    block_ids: torch.Tensor
    max_len: int
    keeps_draft_context: bool = True

    @property
    def token_ids(self) -> torch.Tensor:
        """int64 [T]."""
        return self.rows.token_ids

    @property
    def positions(self) -> torch.Tensor:
        """int64 [T]."""
        return self.rows.positions

    @property
    def num_rows(self) -> int:
        """T, padding included."""
        return self.rows.token_ids.shape[0]
