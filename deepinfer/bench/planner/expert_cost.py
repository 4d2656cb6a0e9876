"""What the experts of a layer take, by the weights they read and the products they make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepinfer.bench.planner.op_point import OpPoint


class ExpertCost:
    """Microseconds = fixed + bytes * per_byte + multiply-adds * per_multiply_add: no coefficient below zero, least
    relative squares through the measured points.

    With experts spread over ranks a rank has fewer experts with more rows each, so rows alone do not say what its
    experts take.
    """

    def __init__(self, points: Sequence[OpPoint]) -> None:
        columns = np.array([(1.0, point.num_bytes, point.multiply_adds) for point in points])
        times = np.array([point.us for point in points])
        self._coefficients = _non_negative_fit(columns / times[:, None])

    def us(self, num_bytes: float, multiply_adds: float) -> float:
        """Of experts that read and multiply so much; 0 for no work."""
        if not multiply_adds:
            return 0.0
        return float(np.dot(self._coefficients, (1.0, num_bytes, multiply_adds)))


def _non_negative_fit(columns: np.ndarray) -> np.ndarray:
    """Coefficients x >= 0 with columns @ x nearest to 1: the best of the fits on each set of columns."""
    num_columns = columns.shape[1]
    best, least = np.zeros(num_columns), np.inf
    for mask in range(1, 1 << num_columns):
        chosen = [column for column in range(num_columns) if mask >> column & 1]
        scale = np.abs(columns[:, chosen]).max(axis=0)
        fit = np.linalg.lstsq(columns[:, chosen] / scale, np.ones(len(columns)), rcond=None)[0] / scale
        error = np.square(columns[:, chosen] @ fit - 1).sum()
        if np.all(fit >= 0) and error < least - 1e-12:
            best, least = np.zeros(num_columns), error
            best[chosen] = fit
    return best
