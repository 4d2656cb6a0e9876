"""Sizes that decode steps are padded to."""

from __future__ import annotations

import pytest

from deepinfer.core.decode_sizes import DecodeSizes
from deepinfer.worker.decode_buckets import DecodeBuckets


def buckets(seqs: int, drafts: int, topk: int = 4, max_len: int = 64) -> DecodeBuckets:
    return DecodeBuckets.build(DecodeSizes(seqs, drafts, 0, max_len, 1), topk)


@pytest.mark.parametrize(("seqs", "drafts", "count"), [(256, 5, 195), (64, 5, 51), (256, 0, 35), (1, 5, 4)])
def test_numbers_of_rows(seqs: int, drafts: int, count: int) -> None:
    """As many as spec/engine.md 3.8 names for these maxima."""
    rows = buckets(seqs, drafts).rows
    assert len(rows) == count and rows[-1] == seqs * (1 + drafts)


def test_every_number_has_the_smallest_bucket() -> None:
    chosen = buckets(6, 2)
    assert chosen.rows == (1, 2, 4, 8, 16, 18) and chosen.seqs == (1, 2, 4, 6)
    for number in range(1, 19):
        bucket = chosen.rows_for(number)
        assert number <= bucket and not any(number <= other < bucket for other in chosen.rows)
    assert [chosen.seqs_for(number) for number in (1, 3, 5, 6)] == [1, 4, 6, 6]


def test_lengths_double_from_the_longest_that_selects_nothing() -> None:
    chosen = buckets(1, 0, topk=5, max_len=70)
    assert chosen.lengths == (5, 10, 20, 40, 70)
    assert [chosen.length_for(length) for length in (1, 5, 6, 41, 70, 99)] == [5, 5, 10, 70, 70, 70]
    assert buckets(1, 0, topk=512, max_len=70).lengths == (70,)
