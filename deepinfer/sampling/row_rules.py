"""Sampling parameters of plain rows as the words that GPU kernels read."""

from __future__ import annotations

import numpy as np

from deepinfer.sampling.fixed_point import FRACTION_BITS
from deepinfer.sampling.transform import MAX_TEMPERATURE
from deepinfer.sampling_params import SamplingParams

NUM_WORDS = 7
INDEX_WORD = 2  # filled in for every row
TEMPERATURE_WORD = 3  # 0: the row takes the argmax


def row_rule(params: SamplingParams, seed: int, prompt_hash: int) -> np.ndarray:
    """int64 [7]: seed, prompt hash, output index (0), bits of a float32 temperature (0: the row takes the argmax),
    least weight, bits of a float64 top_p, top_k (0: all).

    Args:
        params: of the request.
        seed: 64-bit request seed, and
        prompt_hash: 64-bit hash of its prompt: the key of its random words.
    """
    rule = np.zeros(NUM_WORDS, dtype=np.int64)
    rule[:2] = np.array([seed, prompt_hash], dtype=np.uint64).view(np.int64)
    if params.greedy or params.top_k == 1:
        return rule
    rule[TEMPERATURE_WORD] = np.float32(min(params.temperature, MAX_TEMPERATURE)).view(np.int32)
    rule[4] = int(params.min_p * 2**FRACTION_BITS)
    rule[5] = np.float64(params.top_p).view(np.int64)
    rule[6] = max(params.top_k, 0)
    return rule


def is_drawn(rules: np.ndarray) -> np.ndarray:
    """bool [n]: which of rules int64 [n, 7] draw; the others take the argmax."""
    drawn: np.ndarray = rules[:, TEMPERATURE_WORD] != 0
    return drawn


def has_filters(rules: np.ndarray, num_ids: int) -> bool:
    """Whether any of rules int64 [n, 7] leaves out some of num_ids tokens by top-p or top-k."""
    top_p, top_k = np.ascontiguousarray(rules[:, 5]).view(np.float64), rules[:, 6]
    return bool((is_drawn(rules) & ((top_p < 1.0) | ((top_k > 0) & (top_k < num_ids)))).any())
