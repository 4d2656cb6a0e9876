"""The requests that get drafts behind a step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftRequests:
    """R requests, one item of every list each. Filled by the draft proposer.

    Attributes:
        seq_ids: who gets drafts.
        anchors: newest token, not yet run through the target.
        last_positions: position of the last token that has been; the anchor stands behind it.
        state_slots: slot that holds the context.
        output_indices: index of the output token that the first draft speaks about.
    """

    seq_ids: list[int]
    anchors: list[int]
    last_positions: list[int]
    state_slots: list[int]
    output_indices: list[int]

    def __len__(self) -> int:
        return len(self.seq_ids)
