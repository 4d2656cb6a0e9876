"""Compiled grammars by what they were compiled from, the least recently used thrown out first."""

from __future__ import annotations

from collections import OrderedDict

from deepinfer.grammar.compiled_grammar import CompiledGrammar

Key = tuple[str, str, int]


class GrammarCache:
    """Not thread-safe: its owner holds a lock.

    Args:
        limit: bytes kept; <= 0: without limit; None: nothing is kept.
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._entries: OrderedDict[Key, CompiledGrammar] = OrderedDict()
        self._num_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all kept grammars."""
        return self._num_bytes

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> CompiledGrammar | None:
        """A kept grammar, None when there is none."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: Key, grammar: CompiledGrammar) -> None:
        """Keep a grammar as far as the limit lets; one beyond the limit alone is not kept."""
        limit = self._limit
        if limit is None or (0 < limit < grammar.num_bytes) or key in self._entries:
            return
        self._entries[key] = grammar
        self._num_bytes += grammar.num_bytes
        while 0 < limit < self._num_bytes:
            _, oldest = self._entries.popitem(last=False)
            self._num_bytes -= oldest.num_bytes

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._num_bytes = 0
