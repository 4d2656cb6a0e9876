"""Log-probabilities of a prompt's tokens: flat arrays, seen as a list [None, {id: Logprob}, ...]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from deepinfer.outputs.position_logprobs import PositionLogprobs, TokenDecoder
from deepinfer.outputs.ranked_logprobs import RankedLogprobs
from deepinfer.outputs.vocabulary_logprobs import VocabularyLogprobs


class PromptLogprobList(Sequence[PositionLogprobs | None]):
    """One entry per prompt token; entry i judges token i given those before it, positions before `start` are None.

    Always raw log-softmax of the model's logits, natural log; never affected by sampling fields.

    Attributes:
        token_ids: int32 [prompt_len].
        start: first judged position, >= 1.
        logprobs: float32 [prompt_len - start] of the prompt's own tokens.
        ranks: int32 [prompt_len - start], 1-based.
        top_ids: int32 [prompt_len - start, k] best ids; None when `top_logprobs` is [.., vocab] in id order, or absent.
        top_logprobs: float32 [prompt_len - start, k or vocab], or None.
    """

    __slots__ = ("_decode", "logprobs", "ranks", "start", "token_ids", "top_ids", "top_logprobs")

    def __init__(
        self,
        token_ids: np.ndarray,
        start: int,
        logprobs: np.ndarray,
        ranks: np.ndarray,
        top_ids: np.ndarray | None = None,
        top_logprobs: np.ndarray | None = None,
        decode: TokenDecoder | None = None,
    ) -> None:
        self.token_ids = token_ids
        self.start = start
        self.logprobs = logprobs
        self.ranks = ranks
        self.top_ids = top_ids
        self.top_logprobs = top_logprobs
        self._decode = decode

    def __len__(self) -> int:
        return len(self.token_ids)

    @overload
    def __getitem__(self, index: int) -> PositionLogprobs | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[PositionLogprobs | None]: ...
    def __getitem__(self, index: int | slice) -> PositionLogprobs | list[PositionLogprobs | None] | None:
        if isinstance(index, slice):
            return [self._entry(place) for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return self._entry(place)

    def _entry(self, position: int) -> PositionLogprobs | None:
        row = position - self.start
        if row < 0 or row >= len(self.logprobs):
            return None
        token_id, rank = int(self.token_ids[position]), int(self.ranks[row])
        if self.top_ids is None and self.top_logprobs is not None:
            return VocabularyLogprobs(token_id, rank, self.top_logprobs[row], self._decode)
        none = np.zeros(0, np.int32)
        top_ids = none if self.top_ids is None else self.top_ids[row]
        top_logprobs = none if self.top_logprobs is None else self.top_logprobs[row]
        return RankedLogprobs(token_id, float(self.logprobs[row]), rank, top_ids, top_logprobs, self._decode)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PromptLogprobList({len(self)} positions)"

    def to_list(self) -> list[dict[str, Any] | None]:
        """JSON-safe."""
        return [None if entry is None else entry.to_dict() for entry in self]
