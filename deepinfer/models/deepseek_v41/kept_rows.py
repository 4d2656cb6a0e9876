"""Which rows of a step the consumer layers work on (YOCO prefill)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

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
        """The kept rows alone. The shapes follow from python numbers: nothing has to synchronise."""
        device = batch.positions.device
        skipped = [
            min(max(first - start, 0), length)
            for first, start, length in zip(batch.consumer_starts, batch.starts, batch.seq_lens_q, strict=True)
        ]
        seqs = [seq for seq, length in enumerate(batch.seq_lens_q) if length > skipped[seq]]
        lengths = [batch.seq_lens_q[seq] - skipped[seq] for seq in seqs]
        starts = [batch.starts[seq] + skipped[seq] for seq in seqs]
        firsts = torch.tensor([0, *batch.seq_lens_q]).cumsum(0)
        ranges = [torch.arange(int(firsts[seq]) + skipped[seq], int(firsts[seq + 1])) for seq in seqs]
        rows = torch.cat([torch.empty(0, dtype=torch.int64), *ranges]).to(device)
        place = torch.full((batch.num_rows,), -1, dtype=torch.int64, device=device)
        place[rows] = torch.arange(rows.shape[0], device=device)
        chosen = torch.tensor(seqs, dtype=torch.int64, device=device)
        row_seq = torch.repeat_interleave(torch.arange(len(seqs)), torch.tensor(lengths, dtype=torch.int64))
        windows = _window_starts(batch)
        return cls(
            StepBatch(
                token_ids=batch.token_ids[rows],
                positions=batch.positions[rows],
                row_seq=row_seq.to(device),
                cu_seqlens_q=torch.tensor([0, *lengths]).cumsum(0).to(device),
                context_lens=torch.tensor(starts, dtype=torch.int64, device=device),
                state_slots=batch.state_slots[chosen],
                block_ids=batch.block_ids,
                first_blocks=batch.first_blocks[chosen],
                ngram_ids=batch.ngram_ids[rows],
                logit_rows=place[batch.logit_rows],
                seq_lens_q=tuple(lengths),
                starts=tuple(starts),
                window_starts=tuple(windows[seq] for seq in seqs),
                entry_starts=tuple(batch.entry_starts[seq] for seq in seqs),
                consumer_starts=tuple(batch.consumer_starts[seq] for seq in seqs),
            ),
            rows,
        )


def cuts_windows(batch: StepBatch, window: int) -> bool:
    """Whether any row of the step lacks a part of its window in the consumer layers, or is not kept at all."""
    return any(
        first > max(0, start - window + 1) for first, start in zip(batch.consumer_starts, batch.starts, strict=True)
    )


def _window_starts(batch: StepBatch) -> tuple[int, ...]:
    return tuple(map(max, batch.window_starts, batch.consumer_starts))
