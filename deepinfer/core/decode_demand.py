"""How large a decode step has to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deepinfer.core.step_plan import ForwardPlan


class DecodeDemand(NamedTuple):
    """Of one plan, or of the plans of several ranks, which then run steps of one size.

    Attributes:
        num_seqs: sequences.
        num_rows: their rows, those of drafts included.
        max_len: tokens of the longest text with its newest one; in a linked plan a bound.
        makes_drafts: 1 if the draft model is to run behind the step, else 0.
        keeps_context: 1 if the rows are to leave the draft model its context, else 0.
    """

    num_seqs: int = 0
    num_rows: int = 0
    max_len: int = 0
    makes_drafts: int = 0
    keeps_context: int = 0

    @classmethod
    def of(cls, plan: ForwardPlan, makes_drafts: bool = False) -> DecodeDemand:
        """Of a decode plan, exact or linked; of any other plan, zeros."""
        num_seqs = len(plan.seq_ids)
        if plan.kind != "decode" or not num_seqs:
            return cls()
        num_rows, max_len = num_seqs + plan.num_draft_rows, int(plan.context_lens.max()) + 1
        return cls(num_seqs, num_rows, max_len, int(makes_drafts), int(plan.keeps_draft_context))

    @classmethod
    def largest(cls, demands: Iterable[Sequence[int]]) -> DecodeDemand:
        """What is enough for all."""
        return cls(*map(max, zip(*demands, strict=True)))
