"""How many experts a step wakes, and how unevenly ranks are loaded."""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np

from deepinfer.bench.planner.expert_work import ExpertWork
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
    drawn = _random_picks(num_experts, top_k, rows)
    return float(np.mean([len(np.unique(picks)) for picks in drawn]))


def peak_to_mean_of_random_router(num_experts: int, top_k: int, rows: int, num_ranks: int) -> float:
    """Largest over mean load of ranks that share the experts of such a router in order, for `rows` tokens in all."""
    slots = -(-num_experts // num_ranks)
    peaks = [
        np.bincount(picks.ravel() // slots, minlength=num_ranks).max()
        for picks in _random_picks(num_experts, top_k, rows)
    ]
    return float(np.mean(peaks)) / (rows * top_k / num_ranks)


def work_of_random_router(num_experts: int, top_k: int, rows: int, num_ranks: int = 1) -> ExpertWork:
    """Of the fullest of ranks with `rows` tokens each that share the experts of such a router."""
    total = rows * num_ranks
    awake = awake_experts_of_random_router(num_experts, top_k, total) / num_ranks
    peak = peak_to_mean_of_random_router(num_experts, top_k, total, num_ranks)
    return ExpertWork(awake, rows * top_k * peak, rows)


@functools.lru_cache(maxsize=32)  # widths of a plan ask for the same numbers of rows
def _random_picks(num_experts: int, top_k: int, rows: int) -> list[np.ndarray]:
    """Experts uint16 [rows, top_k] of several batches, each of a router of its own."""
    rng = np.random.default_rng(0)
    deviation = weight_statistics("layers.0.ffn.gate.bias", num_experts)[1]
    drawn = []
    for _ in range(max(4, _NUM_DRAWN_ROWS // rows)):
        bias = deviation * rng.standard_normal(num_experts)
        scores = np.sqrt(np.log1p(np.exp(rng.standard_normal((rows, num_experts))))) + bias
        picks = np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k]
        drawn.append(picks.astype(np.uint16))  # a copy: a view would keep all columns
    return drawn


def chance_peak_to_mean(mean_tokens: float, num_ranks: int) -> float:
    """Largest over mean tokens of ranks that differ by chance alone: Poisson numbers, of which the largest of n lies
    about sqrt(2 ln n) deviations above the mean. At most `num_ranks`.
    """
    if num_ranks == 1 or mean_tokens <= 0:
        return 1.0
    return min(float(num_ranks), 1 + math.sqrt(2 * math.log(num_ranks) / mean_tokens))
