"""Which of a step's tokens count: those in front of the first wrong draft, and the one there."""

from __future__ import annotations

import torch

from deepinfer.core.decode_rows import DecodeRows
from deepinfer.sampling.step_rules import StepRules


def accept_tokens(
    tokens: torch.Tensor, rows: DecodeRows, rules: StepRules, max_new: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """New tokens of S sequences, as `TokenChooser` takes them row by row. On the device alone.

    A row counts while every earlier row of its sequence got the token that stands in the row behind it, and none of
    those ends the text.

    Args:
        tokens: int64 [T] what every row gives; -1 for one that cannot be sampled: nothing counts from there on.
        rows: T rows of S sequences, at most max_new a sequence.
        rules: of the S sequences.
        max_new: most tokens a sequence can get.

    Returns:
        tokens int64 [S, max_new], -1 behind the last, and their numbers int64 [S].
    """
    last_row = len(tokens) - 1
    depths = torch.arange(max_new, device=tokens.device)
    num_rows = (rows.num_rows * rules.is_live)[:, None]
    places = (rows.first_rows[:, None] + depths).clamp(max=last_row)
    own, following = tokens[places], rows.token_ids[(places + 1).clamp(max=last_row)]
    is_token = (depths < num_rows) & (own >= 0)
    ends = (own[:, :, None] == rules.stop_ids[:, None, :]).any(dim=2)
    goes_on = is_token & (depths + 1 < num_rows) & (own == following) & ~ends
    reached = torch.ones_like(own)
    reached[:, 1:] = goes_on[:, :-1].to(torch.int64).cumprod(dim=1)
    counts = is_token & (reached > 0)
    return torch.where(counts, own, -1), counts.sum(dim=1)
