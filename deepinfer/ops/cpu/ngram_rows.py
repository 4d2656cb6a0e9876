"""Table rows of a token's hashed n-grams."""

from __future__ import annotations

import torch

from deepinfer._C import cpu
from deepinfer.core.ngram_hash import NgramHash
from deepinfer.ops.cpu.floats import as_int64


def ngram_rows(context: cpu.Context, ngram: torch.Tensor, constants: NgramHash) -> torch.Tensor:
    """See `deepinfer.ops.reference.ngram_rows`; bit-equal to it."""
    ngram, num_heads = as_int64(ngram), constants.primes.shape[1]
    multipliers, primes, offsets = map(as_int64, (constants.multipliers, constants.primes, constants.offsets))
    rows = ngram.new_empty(ngram.shape[0], (ngram.shape[1] - 1) * num_heads)
    cpu.ngram_rows(
        context,
        ids=ngram.data_ptr(),
        multipliers=multipliers.data_ptr(),
        primes=primes.data_ptr(),
        offsets=offsets.data_ptr(),
        rows=rows.data_ptr(),
        num_tokens=ngram.shape[0],
        n=ngram.shape[1],
        num_heads=num_heads,
    )
    return rows
