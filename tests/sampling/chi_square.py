"""Pearson's goodness of fit without scipy."""

import math

import numpy as np

_NORMAL_QUANTILE = 3.0902  # one-sided 0.1 %


def chi_square_fails(counts, probabilities):
    """Whether the counts are unlikely (p < 0.001) under the probabilities, or hit a token of probability 0."""
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    if counts[probabilities == 0].any():
        return True
    expected = probabilities[probabilities > 0] * counts.sum()
    observed = counts[probabilities > 0]
    order = np.argsort(expected)
    expected, observed = expected[order], observed[order]
    small = int(np.searchsorted(np.cumsum(expected), 10.0)) + 1 if expected[0] < 5 else 0  # pool rare tokens
    if small:
        expected = np.concatenate(([expected[:small].sum()], expected[small:]))
        observed = np.concatenate(([observed[:small].sum()], observed[small:]))
    freedom = len(expected) - 1
    if freedom == 0:
        return False
    statistic = ((observed - expected) ** 2 / expected).sum()
    spread = 2.0 / (9.0 * freedom)  # Wilson-Hilferty
    return statistic > freedom * (1.0 - spread + _NORMAL_QUANTILE * math.sqrt(spread)) ** 3
