"""Finding stop strings in a growing text, holding back what may still become one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from deepinfer.text.stop_match import StopMatch


class StopStrings:
    """Matcher of one sequence: `push` each token's text, send on what it returns, stop when `match` is set.

    The match that is completed first wins, by characters and not by tokens, so the outcome does not depend on how
    the text is cut into tokens; of several that end at one place the longest wins. Text that could be the start of a
    stop string is held back until that is decided. Matches completed before `min_tokens` tokens are ignored.

    A character costs a binary search among the stop strings, and a look-up for each length of those that end with it
    and fit into what is held back: with a thousand stop strings about as much as with one.

    Attributes:
        match: the match, None so far.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False, min_tokens: int = 0) -> None:
        self._sorted = sorted(stops)  # those that begin with a text follow right behind its place
        self._stops = frozenset(stops)
        self._lengths = _lengths_by_last_character(self._stops)
        self._include = include
        self._min_tokens = min_tokens
        self._held = ""  # the longest end of the text that is a proper start of a stop string
        self._num_sent = 0  # characters before it
        self.match: StopMatch | None = None

    def push(self, piece: str, num_tokens: int) -> str:
        """Add the text of the newest token.

        Args:
            piece: new text, may be empty.
            num_tokens: tokens generated so far, this one included.

        Returns:
            Text that may be shown now: never part of a stop string that is cut off.
        """
        if self.match is not None:
            return ""
        text, start = self._held + piece, 0  # text[start:end] is what would be held back at `end`
        for end in range(len(self._held) + 1, len(text) + 1):
            stop = self._ending(text, start, end) if num_tokens >= self._min_tokens else None
            if stop is not None:
                kept = end if self._include else end - len(stop)
                self.match = StopMatch(stop, num_tokens, self._num_sent + kept)
                self._held = ""
                return text[:kept]
            while start < end and not self._is_begun(text[start:end]):
                start += 1
        self._held = text[start:]
        self._num_sent += start
        return text[:start]

    def finish(self) -> str:
        """The held-back rest, when the text ended without a match."""
        rest, self._held = self._held, ""
        self._num_sent += len(rest)
        return rest

    def _ending(self, text: str, start: int, end: int) -> str | None:
        """The longest stop string that ends at `end` and begins at `start` or later."""
        for length in self._lengths.get(text[end - 1], ()):
            if length <= end - start and text[end - length : end] in self._stops:
                return text[end - length : end]
        return None

    def _is_begun(self, tail: str) -> bool:
        """Whether a longer stop string begins with `tail`."""
        place = bisect_right(self._sorted, tail)
        return place < len(self._sorted) and self._sorted[place].startswith(tail)


def _lengths_by_last_character(stops: frozenset[str]) -> dict[str, tuple[int, ...]]:
    """Lengths of the stop strings that end with a character, the longest first."""
    lengths: dict[str, set[int]] = {}
    for stop in stops:
        lengths.setdefault(stop[-1], set()).add(len(stop))
    return {last: tuple(sorted(found, reverse=True)) for last, found in lengths.items()}
