"""Read-only mapping {token id: Logprob} of one position: the interface and its two array-backed forms' base."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from deepinfer.outputs.logprob import Logprob

TokenDecoder = Callable[[int], str]


class PositionLogprobs(Mapping[int, Logprob]):
    """A view on arrays; a Logprob object is made only when one is asked for."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens)" if len(self) > 20 else repr(dict(self))

    @abstractmethod
    def chosen(self) -> Logprob:
        """The entry of the token that was generated (or that stands in the prompt)."""

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe {str(token id): {logprob, rank, decoded_token}}."""
        return {str(token_id): entry.to_dict() for token_id, entry in self.items()}
