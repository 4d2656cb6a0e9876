"""What a decode step left on the device: where the next step's forward pass finds the tokens it continues with."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """Outcome of the latest decode step: row j is its sequence j, S is the most sequences of a step.

    Static tensors on the model's device: allocated once, overwritten by every decode step, so that a captured graph
    finds them where they were. Rows behind the step's sequences hold anything of the right type. One stream orders it
    all: the next step's `resolve_rows` reads the whole before it writes its own part, and sampling writes its part
    behind that.

    Attributes:
        tokens: int64 [S, G + 1] new tokens in order, -1 behind the last. Written behind the step, as the next four.
        num_tokens: int64 [S] number of new tokens; 0 for a sequence that got none.
        draft_ids: int64 [S, G] drafts that follow the last new token, -1 for none and behind the last.
        confidences: float32 [S, G] of these drafts.
        columns: float64 [S, 3 G + 2] the same side by side, exact: number of tokens, tokens, drafts, confidences. What
            goes to the host, in one transfer.
        context_lens: int64 [S] tokens in the caches before the step. Written by `resolve_rows`, as the next two.
        first_tokens: int64 [S] token of each sequence's first row.
        lookback: int64 [S, L] tokens before the first row, nearest first; -1 before the start. L = 0 without Engram.
    """

    tokens: torch.Tensor
    num_tokens: torch.Tensor
    draft_ids: torch.Tensor
    confidences: torch.Tensor
    columns: torch.Tensor
    context_lens: torch.Tensor
    first_tokens: torch.Tensor
    lookback: torch.Tensor

    @classmethod
    def allocate(cls, max_num_seqs: int, num_drafts: int, num_lookback: int, device: torch.device) -> DeviceOutcome:
        """One set: no tokens, no drafts. `num_drafts` is G, `num_lookback` L."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(max_num_seqs, *shape, dtype=torch.int64, device=device)

        return cls(
            tokens=zeros(num_drafts + 1).fill_(-1),
            num_tokens=zeros(),
            draft_ids=zeros(num_drafts).fill_(-1),
            confidences=torch.zeros(max_num_seqs, num_drafts, dtype=torch.float32, device=device),
            columns=torch.zeros(max_num_seqs, 3 * num_drafts + 2, dtype=torch.float64, device=device),
            context_lens=zeros(),
            first_tokens=zeros(),
            lookback=zeros(num_lookback).fill_(-1),
        )
