"""`ngram_rows` on a GPU."""

from __future__ import annotations

import torch

from deepinfer.core.ngram_hash import NgramHash
from tilelang_ops.engram import ngram_rows as kernels


def ngram_rows(ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
    """See `Ops.ngram_rows`; equal to the reference."""
    return kernels.ngram_rows(ngram.contiguous(), constants.multipliers, constants.primes, constants.offsets)
