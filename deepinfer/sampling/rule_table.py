"""Every live sequence's sampling rule in one array, so that a step's are gathered in one go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from deepinfer.sampling.row_rules import INDEX_WORD, NUM_WORDS, row_rule
from deepinfer.sampling.row_state import RowState
from deepinfer.sampling.step_rules import IS_LIVE, MAX_STOP_IDS, RULE_WIDTH, SEQ_ID

_NEVER: Final = np.iinfo(np.int64).max
_NOBODY: Final = 0  # place of the rule of padding and of sequences that are not known


class RuleTable:
    """Rules of registered sequences, and from which output index on they say all there is to say."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._free: list[int] = []
        self._rules = np.zeros((1, RULE_WIDTH), dtype=np.int64)
        self._rules[:, NUM_WORDS:] = -1
        self._rules[:, IS_LIVE] = 0
        self._plain_from = np.zeros(1, dtype=np.int64)

    def add(self, seq_id: int, state: RowState) -> None:
        """Register a sequence."""
        if not self._free:
            self._grow()
        place = self._places[seq_id] = self._free.pop()
        rule = self._rules[_NOBODY].copy()
        rule[:NUM_WORDS] = row_rule(state.params, state.seed, state.prompt_hash)
        rule[SEQ_ID], rule[IS_LIVE] = seq_id, 1
        plain_from = _NEVER if state.plain_from is None else state.plain_from
        if len(state.stop_ids) > MAX_STOP_IDS:
            plain_from = _NEVER
        else:
            rule[RULE_WIDTH - MAX_STOP_IDS :][: len(state.stop_ids)] = state.stop_ids
        self._rules[place], self._plain_from[place] = rule, plain_from

    def remove(self, seq_id: int) -> None:
        """Forget a sequence; unknown ones are ignored."""
        place = self._places.pop(seq_id, None)
        if place is not None:
            self._free.append(place)

    def words(self, seq_ids: Sequence[int], output_indices: Sequence[int]) -> np.ndarray:
        """int64 [n, 7] row rules of registered sequences [n] at these output indices [n]."""
        words: np.ndarray = self._rules[[self._places[seq_id] for seq_id in seq_ids], :NUM_WORDS]
        words[:, INDEX_WORD] = output_indices
        return words

    def rows(self, seq_ids: Sequence[int], output_indices: np.ndarray, out: np.ndarray) -> bool:
        """Fill int64 out [P, RULE_WIDTH] for sequences [S], S <= P, at output indices [S]; the rest is padding.

        Sequences that are not registered are like padding. No pool slots are set.

        Returns whether the rules say all of every registered sequence: nothing but logits decides its tokens from its
        output index on, and nobody asks for more than tokens.
        """
        places = np.full(len(out), _NOBODY)
        places[: len(seq_ids)] = [self._places.get(seq_id, _NOBODY) for seq_id in seq_ids]
        np.take(self._rules, places, axis=0, out=out, mode="clip")  # "clip" writes to out directly
        out[: len(seq_ids), INDEX_WORD] = output_indices
        return bool((self._plain_from[places[: len(seq_ids)]] <= output_indices).all())

    def _grow(self) -> None:
        size = len(self._rules)
        self._rules = np.concatenate((self._rules, np.zeros_like(self._rules)))
        self._plain_from = np.concatenate((self._plain_from, np.zeros_like(self._plain_from)))
        self._free = list(range(2 * size - 1, size - 1, -1))
