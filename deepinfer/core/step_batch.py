"""The input of one forward pass: what the model reads on its device, and the geometry on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True, slots=True)
class StepBatch:
    """S sequences with T rows in all, packed. Filled by the model runner from a StepPlan; read by the model, whose
    layers see a `RowBatch`.

    A "row" is one token of one sequence in this step. Everything is int64: tensors on the model's device, and numpy
    arrays, from which the shapes and maps of a step are made, so that nothing has to wait for the device.

    Attributes:
        token_ids: tensor [T] token of each row.
        positions: tensor [T] absolute position of each row in its sequence.
        block_ids: tensor [B] blocks of the sequences' tables, one table behind the other: no table is padded to the
            longest.
        ngram_ids: tensor [T, n] the row's token and its n-1 predecessors (nearest first), -1 before the start;
            n = 0 without Engram.
        logit_rows: tensor [L] rows whose final hidden state is wanted, ascending.
        lengths: array [S] rows per sequence.
        starts: array [S] tokens of the sequence that are in the caches before this step.
        state_slots: array [S] slot of the ring and compressor state.
        first_blocks: array [S] where each sequence's table begins.
        window_starts: array [S] first position that sliding windows may look at.
        entry_starts: array [S] first position whose entries are written; those before are there already.
        consumer_starts: array [S] first position that has a row in the consumer layers.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    block_ids: torch.Tensor
    ngram_ids: torch.Tensor
    logit_rows: torch.Tensor
    lengths: np.ndarray
    starts: np.ndarray
    state_slots: np.ndarray
    first_blocks: np.ndarray
    window_starts: np.ndarray
    entry_starts: np.ndarray
    consumer_starts: np.ndarray

    @property
    def num_rows(self) -> int:
        """T, without asking the device."""
        return self.token_ids.shape[0]

    @property
    def row_seq(self) -> np.ndarray:
        """[T] index 0..S-1 of each row's sequence, on the host."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def row_positions(self) -> np.ndarray:
        """[T] `positions` on the host."""
        first_rows = np.cumsum(self.lengths) - self.lengths
        return np.arange(self.num_rows) + np.repeat(self.starts - first_rows, self.lengths)
