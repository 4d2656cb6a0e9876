"""How many experts a step wakes, and how unevenly ranks are loaded."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from deepinfer.checkpoint.random_tensors import weight_statistics

_NUM_DRAWN_ROWS: Final = 1024


def awake_experts(num_experts: float, rows: float, choices: float) -> float:
    """Mean number of experts with at least one of `rows` tokens, each of which goes to one expert with probability
    `choices` (an even router: experts a token chooses over all experts there are).
    """
    return num_experts * (1 - (1 - min(choices, 1.0)) ** rows)


def awake_experts_of_random_router(num_experts: int, top_k: int, rows: int) -> float:
    """The same of a router with random weights, whose biases make some experts likelier: by drawing.

    The scores are those of `route` on normed rows that have nothing in common; biases are spread as in
    ``load_format="dummy"``. The same on every call.
    """
    rng = np.random.default_rng(0)
    deviation = weight_statistics("layers.0.ffn.gate.bias", num_experts)[1]
    counts = []
    for _ in range(max(4, _NUM_DRAWN_ROWS // rows)):
        bias = deviation * rng.standard_normal(num_experts)
        scores = np.sqrt(np.log1p(np.exp(rng.standard_normal((rows, num_experts))))) + bias
        counts.append(len(np.unique(np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k])))
    return float(np.mean(counts))


def chance_peak_to_mean(mean_tokens: float, num_ranks: int) -> float:
    """Largest over mean tokens of ranks that differ by chance alone: Poisson numbers, of which the largest of n lies
    about sqrt(2 ln n) deviations above the mean. At most `num_ranks`.
    """
    if num_ranks == 1 or mean_tokens <= 0:
        return 1.0
    return min(float(num_ranks), 1 + math.sqrt(2 * math.log(num_ranks) / mean_tokens))
