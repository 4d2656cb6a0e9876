"""The rows of a decode step on the device, padded to a fixed number of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """T rows and S sequences, of which the step may use fewer. Filled by `resolve_rows`; read by the model, by sampling
    and by the draft pass.

    All int64 on the model's device, with shapes that the step's numbers do not change. Rows of a sequence stand behind
    each other: its newest token, then the drafts to be judged. Padding comes last. It repeats the last row, or
    sequence, so that it costs no expert of its own and everything read for it exists; only `seqs` and `num_rows` tell
    it from the real ones. Nothing is stored for a padding row.

    Attributes:
        token_ids: [T].
        positions: [T] absolute position in the sequence.
        seqs: [T] number of the row's sequence; -1 for padding.
        state_slots: [T] slot of the ring and compressor state.
        first_blocks: [T] where the sequence's block table begins.
        first_rows: [S] first row of each sequence.
        num_rows: [S] rows of each sequence; 0 for padding.
        context_lens: [S] tokens in the caches before the step: position of the first row.
        seq_slots: [S] state slot of each sequence.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    seqs: torch.Tensor
    state_slots: torch.Tensor
    first_blocks: torch.Tensor
    first_rows: torch.Tensor
    num_rows: torch.Tensor
    context_lens: torch.Tensor
    seq_slots: torch.Tensor

    @classmethod
    def allocate(cls, num_rows: int, num_seqs: int, device: torch.device) -> DecodeRows:
        """Zeroed."""
        rows = [torch.zeros(num_rows, dtype=torch.int64, device=device) for _ in range(5)]
        seqs = [torch.zeros(num_seqs, dtype=torch.int64, device=device) for _ in range(4)]
        return cls(*rows, *seqs)

    def narrowed(self, num_rows: int, num_seqs: int) -> DecodeRows:
        """The first rows and sequences, in the same memory."""
        return DecodeRows(
            token_ids=self.token_ids[:num_rows],
            positions=self.positions[:num_rows],
            seqs=self.seqs[:num_rows],
            state_slots=self.state_slots[:num_rows],
            first_blocks=self.first_blocks[:num_rows],
            first_rows=self.first_rows[:num_seqs],
            num_rows=self.num_rows[:num_seqs],
            context_lens=self.context_lens[:num_seqs],
            seq_slots=self.seq_slots[:num_seqs],
        )
