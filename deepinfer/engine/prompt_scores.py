"""Collects a prompt's log-probabilities over the chunks of its prefill."""

from __future__ import annotations

import numpy as np

from deepinfer.core.step_result import PromptLogprobs


class PromptScores:
    """Flat arrays over the scored positions, filled by position: a recompute after a preemption writes the same again.

    Attributes:
        start: first scored position, >= 1.
        logprobs: float32 [n] of the prompt's own tokens.
        ranks: int32 [n], 1-based.
        greedy: bool [n].
        top_ids: int32 [n, k], or None.
        top_logprobs: float32 [n, k] (or [n, vocab] in id order), or None.
    """

    def __init__(self, start: int, prompt_len: int) -> None:
        num_scored = max(0, prompt_len - start)
        self.start = start
        self.logprobs = np.full(num_scored, np.nan, dtype=np.float32)
        self.ranks = np.zeros(num_scored, dtype=np.int32)
        self.greedy = np.zeros(num_scored, dtype=bool)
        self.top_ids: np.ndarray | None = None
        self.top_logprobs: np.ndarray | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every position was scored (an aborted request may have missed some)."""
        return bool((self.ranks > 0).all())

    def add(self, chunk: PromptLogprobs) -> None:
        """Take the scores of consecutive positions."""
        begin = chunk.start - self.start
        where = slice(begin, begin + len(chunk.logprobs))
        self.logprobs[where] = chunk.logprobs
        self.ranks[where] = chunk.ranks
        self.greedy[where] = chunk.greedy
        if chunk.top_ids is not None:
            self.top_ids = _written(self.top_ids, where, chunk.top_ids, len(self.logprobs))
        if chunk.top_logprobs is not None:
            self.top_logprobs = _written(self.top_logprobs, where, chunk.top_logprobs, len(self.logprobs))


def _written(array: np.ndarray | None, where: slice, values: np.ndarray, num_rows: int) -> np.ndarray:
    if array is None:
        array = np.zeros((num_rows, values.shape[1]), dtype=values.dtype)
    array[where] = values
    return array
