"""Sizes of the static tensors of decode steps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodeSizes:
    """Fixed at load.

    Attributes:
        max_num_seqs: most sequences S of a step.
        num_drafts: most drafts G of a sequence in a step.
        num_lookback: tokens L named before a sequence's first row; 0 without Engram.
        max_len: positions of a step's rows are below it, in linked plans too, where they are upper bounds.
        max_blocks: most blocks of all the tables of a step together.
    """

    max_num_seqs: int
    num_drafts: int
    num_lookback: int
    max_len: int
    max_blocks: int

    @property
    def max_rows(self) -> int:
        """Most rows of a step."""
        return self.max_num_seqs * (1 + self.num_drafts)

    @property
    def line_width(self) -> int:
        """Tokens of a sequence's line: look-back, newest token, drafts."""
        return self.num_lookback + 1 + self.num_drafts
