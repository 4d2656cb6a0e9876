"""Constants of one Engram layer's hash: multipliers, prime moduli and table offsets."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class NgramHash:
    """Made once at load by `deepinfer.ops.ngram_hash`; read by the `ngram_rows` op.

    Attributes:
        multipliers: int64 [n], one odd factor per look-back distance.
        primes: int64 [n-1, h], modulus per n-gram order (2..n) and head.
        offsets: int64 [n-1, h], first table row of each (order, head).
        num_rows: rows of the whole table (the sum of the primes).
    """

    multipliers: torch.Tensor
    primes: torch.Tensor
    offsets: torch.Tensor
    num_rows: int

    def to(self, device: torch.device | str) -> NgramHash:
        """The same constants on another device."""
        return NgramHash(self.multipliers.to(device), self.primes.to(device), self.offsets.to(device), self.num_rows)
