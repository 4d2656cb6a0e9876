"""Who runs the draft model behind a step."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from deepinfer.core.draft_requests import DraftRequests
from deepinfer.core.logit_rows import LogitRows


class DraftExecutor(Protocol):
    """One draft model over the caches of its target. One pass at a time."""

    def run(self, requests: DraftRequests, num_drafts: int) -> None:
        """Run all stages over a block of `num_drafts` rows per request."""
        ...

    def adjust(self, row: int, previous_ids: np.ndarray) -> tuple[LogitRows, np.ndarray]:
        """Logits of block row `row` given the token before it, and the score of its confidence.

        Args:
            previous_ids: int64 [R] the anchor for row 0, else the draft of row - 1.

        Returns:
            logits float32 [R, vocab], and scores float32 [R] before temperature and sigmoid.
        """
        ...

    def draw(self, requests: DraftRequests) -> tuple[np.ndarray, np.ndarray]:
        """The sequential loop for coupled acceptance: every row draws from its adjusted logits, then the next follows.

        Returns:
            ids int64 [R, num_drafts] and confidence scores float32 [R, num_drafts].
        """
        ...
