"""Counter-based random numbers: Philox4x32-10, vectorised over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from deepinfer.sampling.purpose import Purpose

_MULTIPLIERS: Final = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_LANE_STRIDE: Final = 256  # purposes are below it
_LOW: Final = np.uint64(0xFFFFFFFF)
_SHIFT: Final = np.uint64(32)


def philox4x32(counters: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Philox4x32-10 (Salmon et al. 2011).

    Args:
        counters: uint32 [n, 4].
        keys: uint32 [n, 2].

    Returns:
        uint32 [n, 4], a pure function of each row.
    """
    c0, c1, c2, c3 = (counters[:, word].astype(np.uint64) for word in range(4))
    k0, k1 = (keys[:, word].astype(np.uint64) for word in range(2))
    for _ in range(_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ k0,
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ k1,
            product0 & _LOW,
        )
        k0 = (k0 + np.uint64(_WEYL[0])) & _LOW
        k1 = (k1 + np.uint64(_WEYL[1])) & _LOW
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)


def random_uint64(
    seeds: Sequence[int],
    prompt_hashes: Sequence[int],
    output_indices: Sequence[int],
    purpose: Purpose,
    lane: int = 0,
) -> np.ndarray:
    """One 64-bit word per row, keyed by (request seed, prompt hash, output index, purpose, lane) and nothing else.

    The Philox key is the seed; the counter is (output index, purpose + 256 * lane, low and high half of the prompt
    hash).

    Args:
        seeds: [n] 64-bit request seeds.
        prompt_hashes: [n] 64-bit hashes of the prompts' ids (`seeds.hash_prompt`).
        output_indices: [n] index of the output token, >= 0.
        purpose: which stream.
        lane: tells several words of one purpose and output index apart, 0 .. 2^24 - 1.

    Returns:
        uint64 [n].
    """
    keys = np.asarray(seeds, np.uint64).view("<u4").reshape(-1, 2)
    hashes = np.asarray(prompt_hashes, np.uint64).view("<u4").reshape(-1, 2)
    counters = np.empty((len(seeds), 4), np.uint32)
    counters[:, 0] = output_indices
    counters[:, 1] = int(purpose) + lane * _LANE_STRIDE
    counters[:, 2:] = hashes
    words = philox4x32(counters, keys).astype(np.uint64)
    return words[:, 0] | (words[:, 1] << _SHIFT)
