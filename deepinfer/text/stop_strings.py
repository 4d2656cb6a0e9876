"""Finding stop strings in a growing text, holding back what may still become one."""

from __future__ import annotations

from collections.abc import Sequence

from deepinfer.text.stop_match import StopMatch


class StopStrings:
    """Matcher of one sequence: `push` each token's text, send on what it returns, stop when `match` is set.

    The match that is completed first wins, by characters and not by tokens, so the outcome does not depend on how
    the text is cut into tokens; of several that end at one place the longest wins. Text that could be the start of a
    stop string is held back until that is decided. Matches completed before `min_tokens` tokens are ignored.

    Attributes:
        match: the match, None so far.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False, min_tokens: int = 0) -> None:
        self._stops = tuple(sorted(stops, key=len, reverse=True))
        self._longest = len(self._stops[0]) if self._stops else 0
        self._include = include
        self._min_tokens = min_tokens
        self._window = ""  # the last characters: enough to find a match that ends in the next piece
        self._length = 0  # characters seen
        self._sent = 0  # characters returned
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
        old = self._length
        self._window += piece
        self._length += len(piece)
        if num_tokens >= self._min_tokens:
            self.match = self._find(old, num_tokens)
        end = self._length - self._num_held() if self.match is None else self.match.text_end
        return self._send(end)

    def finish(self) -> str:
        """The held-back rest, when the text ended without a match."""
        return "" if self.match is not None else self._send(self._length)

    def _find(self, old: int, num_tokens: int) -> StopMatch | None:
        """The first stop string that ends behind character number `old`."""
        base = self._length - len(self._window)
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            place = self._window.find(stop, max(0, old - base - len(stop) + 1))
            if place >= 0:
                start = base + place
                found = (start + len(stop), start, stop)
                best = found if best is None else min(best, found)
        if best is None:
            return None
        end, start, stop = best
        return StopMatch(stop, num_tokens, end if self._include else start)

    def _num_held(self) -> int:
        """Length of the longest end of the text that is a proper start of a stop string."""
        for length in range(min(self._longest - 1, len(self._window)), 0, -1):
            tail = self._window[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0

    def _send(self, end: int) -> str:
        """Characters between what was returned and `end`; shortens the window to what later matches can need."""
        base = self._length - len(self._window)
        piece = self._window[self._sent - base : end - base]
        self._sent = max(self._sent, end)
        keep = max(self._longest - 1, self._length - self._sent)
        self._window = self._window[-keep:] if keep else ""
        return piece
