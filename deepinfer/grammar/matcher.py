"""Follows one sequence: free text up to a trigger, then the grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class InnerMatcher(Protocol):
    """What a grammar library has to offer; implemented by `grammar.xgrammar_matcher.XGrammarMatcher`."""

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a whole value."""
        ...

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        ...

    def fill_mask(self, mask: np.ndarray) -> bool:
        """Write the allowed tokens into int32 words; False when all are allowed."""
        ...

    def accept(self, token_id: int) -> bool:
        """Go on with a token; False, without any change, when it is not allowed."""
        ...

    def rollback(self, num_tokens: int) -> None:
        """Take accepted tokens back, any number."""
        ...


class _State(NamedTuple):
    """Before a token: how much of the trigger is matched, whether the rest is forced, whether the grammar runs."""

    progress: int
    is_bound: bool
    in_grammar: bool


class TriggeredMatcher:
    """A `core.grammar_matcher.GrammarMatcher` (spec/decode.md 5.1).

    Text is free until the trigger's ids have appeared completely and contiguously; the grammar starts with the next
    token. Once the bound token appears before that, the ids that are still missing are forced one by one. Behind a
    stop token every token is allowed and changes nothing: that matters for drafts behind an EOS only.

    Args:
        inner: matcher of the grammar alone.
        trigger: ids; empty: the grammar starts with the first token.
        bound: id that forces the rest of the trigger; None: never.
    """

    def __init__(self, inner: InnerMatcher, trigger: Sequence[int] = (), bound: int | None = None) -> None:
        self._inner = inner
        self._trigger = tuple(trigger)
        self._fallback = _fallback_table(self._trigger)
        self._bound = bound
        self._state = _State(0, False, not self._trigger)
        self._history: list[tuple[_State, bool]] = []

    @property
    def num_accepted(self) -> int:
        """Tokens accepted and not rolled back."""
        return len(self._history)

    @property
    def is_constrained(self) -> bool:
        """Whether the next token is restricted."""
        return (self._state.is_bound or self._state.in_grammar) and not self.is_terminated

    @property
    def is_complete(self) -> bool:
        """Whether a whole value of the grammar stands behind the trigger."""
        return self._state.in_grammar and (self._inner.is_terminated or self._inner.is_complete)

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted behind a whole value."""
        return self._state.in_grammar and self._inner.is_terminated

    def fill_mask(self, mask: np.ndarray) -> bool:
        """Write the allowed tokens, int32 [ceil(vocabulary / 32)]; False when all are allowed."""
        if not self.is_constrained:
            return False
        if self._state.in_grammar:
            return self._inner.fill_mask(mask)
        forced = self._trigger[self._state.progress]
        mask.fill(0)
        mask.view(np.uint32)[forced >> 5] = 1 << (forced & 31)
        return True

    def accept(self, token_id: int) -> bool:
        """Go on with a token; False, without any change, when it is not allowed."""
        state, moved_inner = self._state, False
        if state.in_grammar:
            if not self._inner.is_terminated:
                if not self._inner.accept(token_id):
                    return False
                moved_inner = True
        elif state.is_bound and token_id != self._trigger[state.progress]:
            return False
        else:
            self._state = self._after(state, token_id)
        self._history.append((state, moved_inner))
        return True

    def rollback(self, num_tokens: int) -> None:
        """Take the newest tokens back. Raises ValueError for more than were accepted."""
        if not 0 <= num_tokens <= len(self._history):
            raise ValueError(f"cannot take back {num_tokens} of {len(self._history)} tokens")
        if num_tokens:
            undone = self._history[-num_tokens:]
            self._inner.rollback(sum(moved for _, moved in undone))
            del self._history[-num_tokens:]
            self._state = undone[0][0]

    def _after(self, state: _State, token_id: int) -> _State:
        """One step of Knuth-Morris-Pratt; the bound token takes this step too before it binds."""
        progress = state.progress
        while progress and self._trigger[progress] != token_id:
            progress = self._fallback[progress - 1]
        progress += self._trigger[progress] == token_id
        is_bound = state.is_bound or token_id == self._bound
        return _State(progress, is_bound, progress == len(self._trigger))


def _fallback_table(pattern: tuple[int, ...]) -> list[int]:
    """Entry i: length of the longest proper prefix of pattern[: i + 1] that is also its suffix."""
    table = [0] * len(pattern)
    length = 0
    for place in range(1, len(pattern)):
        while length and pattern[place] != pattern[length]:
            length = table[length - 1]
        length += pattern[place] == pattern[length]
        table[place] = length
    return table
