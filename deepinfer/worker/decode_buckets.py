"""Sizes that decode steps are padded to, so that few graphs serve them all."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from deepinfer.core.decode_sizes import DecodeSizes

_INTERVAL = 8


@dataclass(frozen=True, slots=True)
class DecodeBuckets:
    """Numbers of rows and of sequences, and bounds of lengths, ascending.

    Attributes:
        rows: powers of two below the interval, then its multiples, and the maximum (spec/engine.md 3.8).
        seqs: likewise.
        lengths: doubling from the longest sequence of which no row has to select among its entries, and the maximum.
    """

    rows: tuple[int, ...]
    seqs: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def build(cls, sizes: DecodeSizes, index_topk: int) -> DecodeBuckets:
        """Buckets for all steps of these sizes."""
        length, lengths = max(index_topk, 1), {sizes.max_len}
        while length < sizes.max_len:
            lengths.add(length)
            length *= 2
        return cls(_counts(sizes.max_rows), _counts(sizes.max_num_seqs), tuple(sorted(lengths)))

    def rows_for(self, num_rows: int) -> int:
        """The smallest bucket that takes so many rows."""
        return self.rows[bisect_left(self.rows, num_rows)]

    def seqs_for(self, num_seqs: int) -> int:
        """The smallest bucket that takes so many sequences."""
        return self.seqs[bisect_left(self.seqs, num_seqs)]

    def length_for(self, length: int) -> int:
        """The smallest bucket that takes sequences of so many tokens; the largest for a bound above all of them."""
        return self.lengths[min(bisect_left(self.lengths, length), len(self.lengths) - 1)]


def _counts(largest: int) -> tuple[int, ...]:
    interval = min(_INTERVAL, largest)
    counts = {1 << k for k in range(interval.bit_length()) if 1 << k < interval}
    return tuple(sorted(counts | {*range(interval, largest, interval), largest}))
