"""One position's log-probabilities of the whole vocabulary, as a view on one float32 row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deepinfer.outputs.logprob import Logprob, finite_logprob
from deepinfer.outputs.position_logprobs import PositionLogprobs, TokenDecoder


class VocabularyLogprobs(PositionLogprobs):
    """{token id: Logprob} over every id, in id order; ranks are counted when asked for.

    Args:
        token_id: the token that stands at this position, and its 1-based `rank`.
        row: float32 [vocab], natural log-probabilities by id.
        decode: id to text, or None.
    """

    __slots__ = ("_decode", "_rank", "_row", "_token_id")

    def __init__(self, token_id: int, rank: int, row: np.ndarray, decode: TokenDecoder | None = None) -> None:
        self._token_id = token_id
        self._rank = rank
        self._row = row
        self._decode = decode

    @property
    def row(self) -> np.ndarray:
        """float32 [vocab], without copying."""
        return self._row

    def chosen(self) -> Logprob:
        return self[self._token_id]

    def __getitem__(self, token_id: int) -> Logprob:
        if not isinstance(token_id, (int, np.integer)) or not 0 <= token_id < len(self._row):
            raise KeyError(token_id)
        text = self._decode(int(token_id)) if self._decode is not None else None
        return Logprob(finite_logprob(self._row[token_id]), self._rank_of(int(token_id)), text)

    def _rank_of(self, token_id: int) -> int:
        if token_id == self._token_id:
            return self._rank
        value = self._row[token_id]
        ties_before = np.count_nonzero(self._row[:token_id] == value)
        return 1 + int(np.count_nonzero(self._row > value)) + int(ties_before)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._row)))

    def __len__(self) -> int:
        return len(self._row)
