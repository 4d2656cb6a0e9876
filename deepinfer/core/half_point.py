"""Where the sequences of a step are cut into two halves."""

from __future__ import annotations

import numpy as np


def half_point(lengths: np.ndarray) -> int:
    """How many sequences the first half has, so that both have about as many rows. No sequence is cut, and neither half
    is empty but for the second one of fewer than two sequences.

    Args:
        lengths: int [S] rows of each sequence, all at least 1.
    """
    if len(lengths) < 2:
        return len(lengths)
    ends = np.cumsum(lengths)
    return 1 + int(np.argmin(np.abs(2 * ends[:-1] - ends[-1])))
