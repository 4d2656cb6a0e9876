"""One position's log-probabilities as a short list of the best ids plus the chosen token."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deepinfer.outputs.logprob import Logprob, finite_logprob
from deepinfer.outputs.position_logprobs import PositionLogprobs, TokenDecoder


class RankedLogprobs(PositionLogprobs):
    """{token id: Logprob}, best first, the chosen token last unless it is among the best.

    Args:
        token_id: the chosen token, its `logprob` and 1-based `rank`.
        top_ids: int32 [k], best first.
        top_logprobs: float32 [k].
        decode: id to text, or None.
    """

    __slots__ = ("_decode", "_logprob", "_rank", "_token_id", "_top_ids", "_top_logprobs")

    def __init__(
        self,
        token_id: int,
        logprob: float,
        rank: int,
        top_ids: np.ndarray,
        top_logprobs: np.ndarray,
        decode: TokenDecoder | None = None,
    ) -> None:
        self._token_id = token_id
        self._logprob = logprob
        self._rank = rank
        self._top_ids = top_ids
        self._top_logprobs = top_logprobs
        self._decode = decode

    def _entry(self, token_id: int, logprob: float, rank: int) -> Logprob:
        text = self._decode(token_id) if self._decode is not None else None
        return Logprob(finite_logprob(logprob), rank, text)

    def chosen(self) -> Logprob:
        return self._entry(self._token_id, self._logprob, self._rank)

    def __getitem__(self, token_id: int) -> Logprob:
        if token_id == self._token_id:
            return self.chosen()
        places = np.flatnonzero(self._top_ids == token_id)
        if places.size == 0:
            raise KeyError(token_id)
        place = int(places[0])
        return self._entry(int(token_id), self._top_logprobs[place], place + 1)

    def __iter__(self) -> Iterator[int]:
        yield from self._top_ids.tolist()
        if not self._chosen_in_top():
            yield self._token_id

    def __len__(self) -> int:
        return len(self._top_ids) + (not self._chosen_in_top())

    def _chosen_in_top(self) -> bool:
        return bool((self._top_ids == self._token_id).any())
