"""Builds the hash constants of an Engram layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from deepinfer.config.engram_primes import engram_primes
from deepinfer.core.ngram_hash import NgramHash

_SEED_FACTOR = 10007


def ngram_hash(
    layer_id: int,
    *,
    layer_ids: Sequence[int],
    vocab_size: int,
    compressed_vocab_size: int,
    max_ngram_size: int,
    num_heads: int,
) -> NgramHash:
    """Multipliers, primes and offsets of one Engram layer (spec/model.md 9.2).

    Args:
        layer_id: the layer.
        layer_ids: all Engram layers, ascending (their tables use different primes).
        vocab_size: engram_vocab_size, lower bound of every prime.
        compressed_vocab_size: number of compressed token ids.
        max_ngram_size: longest n-gram (n).
        num_heads: hashes per n-gram order (h).

    Returns:
        The constants, on the CPU.
    """
    primes = engram_primes(vocab_size, max_ngram_size - 1, num_heads, len(layer_ids))[list(layer_ids).index(layer_id)]
    bound = max(1, (2**63 - 1) // compressed_vocab_size // 2)
    draws = np.random.default_rng(_SEED_FACTOR * layer_id).integers(0, bound, size=max_ngram_size, dtype=np.int64)
    modulus = torch.tensor(primes, dtype=torch.int64)
    offsets = (modulus.view(-1).cumsum(0) - modulus.view(-1)).view_as(modulus)
    return NgramHash(torch.from_numpy(draws * 2 + 1), modulus, offsets, int(modulus.sum()))
