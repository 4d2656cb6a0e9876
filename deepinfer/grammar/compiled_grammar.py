"""A compiled grammar, shared by every sequence that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deepinfer.core.constraint import Constraint
from deepinfer.grammar.matcher import TriggeredMatcher
from deepinfer.grammar.token_guard import TokenGuard
from deepinfer.grammar.xgrammar_matcher import XGrammarMatcher

if TYPE_CHECKING:
    import xgrammar


class CompiledGrammar:
    """Immutable; any thread may make matchers from it."""

    def __init__(self, compiled: xgrammar.CompiledGrammar, guard: TokenGuard, num_ids: int) -> None:
        self._compiled = compiled
        self._guard = guard
        self._num_words = -(-num_ids // 32)

    @property
    def num_bytes(self) -> int:
        """Approximate memory."""
        return int(self._compiled.memory_size_bytes)

    @property
    def can_start(self) -> bool:
        """Whether any token may come first."""
        mask = np.zeros(self._num_words, dtype=np.int32)
        return not self.matcher(()).fill_mask(mask) or bool(mask.any())

    def new_matcher(self, constraint: Constraint) -> TriggeredMatcher:
        """A matcher at the start of a sequence."""
        return self.matcher(constraint.trigger_token_ids, constraint.bound_token_id)

    def matcher(self, trigger: tuple[int, ...], bound: int | None = None) -> TriggeredMatcher:
        """A matcher with its own trigger."""
        import xgrammar

        inner = XGrammarMatcher(xgrammar.GrammarMatcher(self._compiled), self._guard)
        return TriggeredMatcher(inner, trigger, bound)
