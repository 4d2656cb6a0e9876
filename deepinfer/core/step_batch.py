"""The input of one forward pass, as device tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class StepBatch:
    """S sequences with T rows in all, packed. Filled by the model runner from a StepPlan; read by the model.

    All tensors are int64 on the model's device. A "row" is one token of one sequence in this step.

    Attributes:
        token_ids: [T] token of each row.
        positions: [T] absolute position of each row in its sequence.
        row_seq: [T] index 0..S-1 of the row's sequence.
        cu_seqlens_q: [S+1] prefix sums of rows per sequence.
        context_lens: [S] tokens of the sequence that are in the caches before this step.
        state_slots: [S] slot of the ring and compressor state.
        block_ids: [B] blocks of the sequences' tables, one table behind the other: no table is padded to the longest.
        first_blocks: [S] where each sequence's table begins.
        ngram_ids: [T, n] the row's token and its n-1 predecessors (nearest first), -1 before the start;
            n = 0 without Engram.
        logit_rows: [L] rows whose final hidden state is wanted, ascending.
        seq_lens_q: python copy of the rows per sequence, so that no code has to synchronise to know the shapes.
        starts: python copy of context_lens.
        window_starts: python, per sequence: first position that sliding windows may look at.
        entry_starts: python, per sequence: first position whose entries are written; those before are there already.
        consumer_starts: python, per sequence: first position that has a row in the consumer layers.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    row_seq: torch.Tensor
    cu_seqlens_q: torch.Tensor
    context_lens: torch.Tensor
    state_slots: torch.Tensor
    block_ids: torch.Tensor
    first_blocks: torch.Tensor
    ngram_ids: torch.Tensor
    logit_rows: torch.Tensor
    seq_lens_q: tuple[int, ...]
    starts: tuple[int, ...]
    window_starts: tuple[int, ...]
    entry_starts: tuple[int, ...]
    consumer_starts: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """T, without asking the device."""
        return self.token_ids.shape[0]
