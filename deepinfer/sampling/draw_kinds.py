"""Which kernels a set of rows needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepinfer.sampling.row_rules import has_filters, is_drawn


@dataclass(frozen=True, slots=True)
class DrawKinds:
    """What any row of a set asks for; part of what a captured graph is for.

    Attributes:
        draws: whether any row is drawn; without, all take the argmax.
        filters: whether any drawn row has top-p or top-k.
    """

    draws: bool
    filters: bool

    @classmethod
    def of(cls, words: np.ndarray, num_ids: int) -> DrawKinds:
        """Of row rules int64 [n, 7] over num_ids tokens."""
        return cls(bool(is_drawn(words).any()), has_filters(words, num_ids))
