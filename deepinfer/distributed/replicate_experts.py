"""First half of EPLB: how many places each expert gets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_TIE_STEP = 1e-4  # tokens; makes equal loads differ, so that every rank decides alike


def replicate_experts(loads: npt.NDArray[np.float64], num_physical: int) -> npt.NDArray[np.int64]:
    """Greedy: again and again one more place for the expert that then lowers the sum over steps of the largest load of
    a place the most (spec/engine.md 5.6). Places of an expert share its tokens evenly.

    Args:
        loads: float64 [steps, num_logical], tokens of one layer.
        num_physical: places to fill, at least num_logical.

    Returns:
        int64 [num_logical], places of each expert; their sum is num_physical.
    """
    num_steps, num_logical = loads.shape
    loads = loads + _TIE_STEP * np.arange(num_logical)
    counts = np.ones(num_logical, np.int64)
    steps = np.arange(num_steps)
    for _ in range(num_physical - num_logical):
        shares = loads / counts
        hottest = shares.argmax(axis=1) if num_steps else np.zeros(0, np.int64)
        peaks = shares[steps, hottest]
        shares[steps, hottest] = -np.inf
        # A further place changes the largest load only of the steps in which its expert has it.
        with_one_more = loads[steps, hottest] / (counts[hottest] + 1)
        new_peaks = np.maximum(shares.max(axis=1, initial=-np.inf), with_one_more)
        gains = np.bincount(hottest, weights=peaks - new_peaks, minlength=num_logical)
        counts[gains.argmax()] += 1
    return counts
