"""How the sequences of a decode step are sampled, as one static tensor on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from deepinfer.sampling.row_rules import NUM_WORDS

SEQ_ID: Final = NUM_WORDS
POOL_SLOT: Final = NUM_WORDS + 1
IS_LIVE: Final = NUM_WORDS + 2  # 1 for a sequence that gets tokens, else 0
FIRST_STOP_ID: Final = NUM_WORDS + 3  # and MAX_STOP_IDS columns: tokens behind which nothing counts; -1 for none
MAX_STOP_IDS: Final = 32  # a sequence with more is sampled by the host
RULE_WIDTH: Final = FIRST_STOP_ID + MAX_STOP_IDS


@dataclass(frozen=True, slots=True)
class StepRules:
    """S sequences, padding behind them. Rows are filled by `RuleTable.rows`.

    Attributes:
        values: int64 [S, RULE_WIDTH] contiguous; zeros in a row of padding but for the ids, which are -1.
    """

    values: torch.Tensor

    @classmethod
    def allocate(cls, max_num_seqs: int, device: torch.device) -> StepRules:
        """One set for steps of up to max_num_seqs sequences."""
        return cls(torch.zeros((max_num_seqs, RULE_WIDTH), dtype=torch.int64, device=device))

    def first(self, num_seqs: int) -> StepRules:
        """The first num_seqs of them."""
        return StepRules(self.values[:num_seqs])

    @property
    def words(self) -> torch.Tensor:
        """[S, 7] rule of each sequence's first row (`row_rules.row_rule`); not contiguous."""
        return self.values[:, :NUM_WORDS]

    @property
    def seq_ids(self) -> torch.Tensor:
        """[S]."""
        return self.values[:, SEQ_ID]

    @property
    def pool_slots(self) -> torch.Tensor:
        """[S] where the draft pool keeps what the sequence's drafts were drawn from; -1: nowhere."""
        return self.values[:, POOL_SLOT]
