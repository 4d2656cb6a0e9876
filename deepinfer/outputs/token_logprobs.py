"""Log-probabilities of one completion's tokens: flat arrays, seen as a list of mappings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from deepinfer.outputs.logprob import finite_logprob
from deepinfer.outputs.position_logprobs import PositionLogprobs, TokenDecoder
from deepinfer.outputs.ranked_logprobs import RankedLogprobs


class TokenLogprobs(Sequence[PositionLogprobs]):
    """One {token id: Logprob} mapping per generated token, made on access.

    Attributes:
        token_ids: int32 [n] generated tokens.
        logprobs: float32 [n] their natural log-probabilities, finite.
        ranks: int32 [n], 1-based.
        top_ids: int32 [n, k], best first.
        top_logprobs: float32 [n, k].
    """

    __slots__ = ("_decode", "logprobs", "ranks", "token_ids", "top_ids", "top_logprobs")

    def __init__(
        self,
        token_ids: np.ndarray,
        logprobs: np.ndarray,
        ranks: np.ndarray,
        top_ids: np.ndarray,
        top_logprobs: np.ndarray,
        decode: TokenDecoder | None = None,
    ) -> None:
        self.token_ids = token_ids
        self.logprobs = logprobs
        self.ranks = ranks
        self.top_ids = top_ids
        self.top_logprobs = top_logprobs
        self._decode = decode

    @classmethod
    def empty(cls, num_top: int = 0, decode: TokenDecoder | None = None) -> TokenLogprobs:
        """For a completion without tokens."""
        ids, values = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return cls(ids, values, ids, ids.reshape(0, num_top), values.reshape(0, num_top), decode)

    @classmethod
    def from_samples(cls, samples: Sequence[Any], decode: TokenDecoder | None = None) -> TokenLogprobs:
        """From core SampledToken objects that carry log-probabilities (top lists of one length)."""
        if not samples:
            return cls.empty(0, decode)
        none = np.zeros(0, np.float32)
        tops = [none.astype(np.int32) if item.top_ids is None else item.top_ids for item in samples]
        values = [none if item.top_logprobs is None else item.top_logprobs for item in samples]
        return cls(
            np.asarray([item.token_id for item in samples], np.int32),
            np.asarray([finite_logprob(item.logprob) for item in samples], np.float32),
            np.asarray([item.rank for item in samples], np.int32),
            np.stack(tops),
            np.stack(values),
            decode,
        )

    def cumulative(self) -> float:
        """Sum of the tokens' log-probabilities, in float64."""
        return float(self.logprobs.astype(np.float64).sum())

    def __len__(self) -> int:
        return len(self.token_ids)

    @overload
    def __getitem__(self, index: int) -> PositionLogprobs: ...
    @overload
    def __getitem__(self, index: slice) -> TokenLogprobs: ...
    def __getitem__(self, index: int | slice) -> PositionLogprobs | TokenLogprobs:
        if isinstance(index, slice):
            return TokenLogprobs(
                self.token_ids[index],
                self.logprobs[index],
                self.ranks[index],
                self.top_ids[index],
                self.top_logprobs[index],
                self._decode,
            )
        return RankedLogprobs(
            int(self.token_ids[index]),
            float(self.logprobs[index]),
            int(self.ranks[index]),
            self.top_ids[index],
            self.top_logprobs[index],
            self._decode,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"[{', '.join(repr(entry) for entry in self)}]"

    def to_list(self) -> list[dict[str, Any]]:
        """JSON-safe."""
        return [entry.to_dict() for entry in self]
