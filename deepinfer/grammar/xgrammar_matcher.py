"""The matcher of the xgrammar library behind our protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deepinfer.grammar.token_guard import TokenGuard

if TYPE_CHECKING:
    import xgrammar


class XGrammarMatcher:
    """A `grammar.matcher.InnerMatcher`.

    Args:
        matcher: the library's own; its rollback has no limit.
        guard: bans what the library would take although it is no text.
    """

    def __init__(self, matcher: xgrammar.GrammarMatcher, guard: TokenGuard) -> None:
        self._matcher = matcher
        self._guard = guard
        self._token_ids: list[int] = []

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a whole value."""
        return bool(self._matcher.is_completed())

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return bool(self._matcher.is_terminated())

    def fill_mask(self, mask: np.ndarray) -> bool:
        """Write the allowed tokens into int32 words."""
        self._matcher.fill_next_token_bitmask(mask[None])
        self._guard.restrict(mask, self._token_ids[-1:])
        return True

    def accept(self, token_id: int) -> bool:
        """Go on with a token; False when it is not allowed."""
        if not self._guard.allows(token_id, self._token_ids[-1:]) or not self._matcher.accept_token(token_id):
            return False
        self._token_ids.append(token_id)
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take accepted tokens back."""
        if num_tokens:
            self._matcher.rollback(num_tokens)
            del self._token_ids[-num_tokens:]
