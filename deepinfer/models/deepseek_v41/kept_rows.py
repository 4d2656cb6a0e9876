"""Which rows of a step the consumer layers work on (YOCO prefill)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from deepinfer.core.device_arrays import device_arrays
from deepinfer.core.step_batch import StepBatch


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows p >= consumer_start of a step's sequences (spec/model.md 11).

    Attributes:
        batch: these rows and the sequences that have any, packed anew; windows begin at consumer_start.
        rows: int64 [T'] their numbers in the step; None: all rows.
    """

    batch: StepBatch
    rows: torch.Tensor | None

    @classmethod
    def masked(cls, batch: StepBatch) -> KeptRows:
        """Every row, with windows that begin at consumer_start: a row before it sees no window at all."""
        return cls(replace(batch, window_starts=_window_starts(batch)), None)

    @classmethod
    def compact(cls, batch: StepBatch) -> KeptRows:
        """The kept rows alone."""
        skipped = np.clip(batch.consumer_starts - batch.starts, 0, batch.lengths)
        seqs = np.flatnonzero(batch.lengths > skipped)
        seq = batch.row_seq
        is_kept = batch.row_positions >= (batch.starts + skipped)[seq]
        place = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
        rows, places = device_arrays(batch.positions.device, np.flatnonzero(is_kept), place)
        return cls(
            StepBatch(
                token_ids=batch.token_ids[rows],
                positions=batch.positions[rows],
                block_ids=batch.block_ids,
                ngram_ids=batch.ngram_ids[rows],
                logit_rows=places[batch.logit_rows],
                lengths=(batch.lengths - skipped)[seqs],
                starts=(batch.starts + skipped)[seqs],
                state_slots=batch.state_slots[seqs],
                first_blocks=batch.first_blocks[seqs],
                window_starts=_window_starts(batch)[seqs],
                entry_starts=batch.entry_starts[seqs],
                consumer_starts=batch.consumer_starts[seqs],
            ),
            rows,
        )


def cuts_windows(batch: StepBatch, window: int) -> bool:
    """Whether any row of the step lacks a part of its window in the consumer layers, or is not kept at all."""
    return bool(np.any(batch.consumer_starts > np.maximum(0, batch.starts - window + 1)))


def _window_starts(batch: StepBatch) -> np.ndarray:
    return np.maximum(batch.window_starts, batch.consumer_starts)
