"""One draft as rejection sampling needs it: the token and the distribution that it was drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class ProposedDraft:
    """Filled by `Sampler.propose`.

    Attributes:
        token_id: the draft.
        weights: float32 [num_ids] unnormalised probabilities, whole numbers up to 2^40, of exactly the distribution
            that was drawn from; None when it was no draw (greedy, or a draft row with NaN or infinite logits).
    """

    token_id: int
    weights: torch.Tensor | None = None
