"""How many tokens a request will generate, guessed from those that have ended."""

from __future__ import annotations

from typing import Final

_FIRST_GUESS: Final = 256
_PRIOR_WEIGHT: Final = 4


class ExpectedLength:
    """Mean length of the choices that have ended.

    A request's bound (``max_tokens``) alone says little: it is often the whole context. Without this guess a replica
    would seem full after a few requests. Before anything has ended the guess is 256 tokens, which counts like four
    ended choices.
    """

    def __init__(self) -> None:
        self._num_tokens = _FIRST_GUESS * _PRIOR_WEIGHT
        self._num_choices = _PRIOR_WEIGHT

    def observe(self, num_new_tokens: int) -> None:
        """A choice has ended after so many tokens."""
        assert num_new_tokens >= 0, num_new_tokens
        self._num_tokens += num_new_tokens
        self._num_choices += 1

    def of(self, max_tokens: int) -> int:
        """Tokens that a choice of at most `max_tokens` is expected to generate, rounded up."""
        return min(max_tokens, -(-self._num_tokens // self._num_choices))
