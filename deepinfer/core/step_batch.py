"""The input of one forward pass: what the model reads on its device, and the geometry on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from deepinfer.core.half_point import half_point


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

    def halves(self, logit_rows: np.ndarray) -> tuple[StepBatch, StepBatch | None]:
        """The first sequences and the others, about as many rows each (`half_point`); None: there is but one.

        Args:
            logit_rows: int64 [L] the tensor of this name, on the host.
        """
        cut = half_point(self.lengths)
        row = int(self.lengths[:cut].sum())
        wanted = int(np.searchsorted(logit_rows, row))
        first = self._part(slice(None, cut), slice(None, row), self.logit_rows[:wanted])
        if cut == len(self.lengths):
            return first, None
        return first, self._part(slice(cut, None), slice(row, None), self.logit_rows[wanted:] - row)

    def _part(self, seqs: slice, rows: slice, logit_rows: torch.Tensor) -> StepBatch:
        return StepBatch(
            token_ids=self.token_ids[rows],
            positions=self.positions[rows],
            block_ids=self.block_ids,
            ngram_ids=self.ngram_ids[rows],
            logit_rows=logit_rows,
            lengths=self.lengths[seqs],
            starts=self.starts[seqs],
            state_slots=self.state_slots[seqs],
            first_blocks=self.first_blocks[seqs],
            window_starts=self.window_starts[seqs],
            entry_starts=self.entry_starts[seqs],
            consumer_starts=self.consumer_starts[seqs],
        )

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
