"""How much of a stretch of time is covered by spans of one lane."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from deepinfer.profile.span import Span


class BusyTime:
    """Spans of one lane, none of which overlaps another unless it lies inside it (then only the outer one counts)."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans: list[Span] = []
        for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
            if not self._spans or span.begin >= self._spans[-1].end:
                self._spans.append(span)
        self._begins = [span.begin for span in self._spans]

    def inside(self, outer: Span) -> list[Span]:
        """Those that begin in a span."""
        return self._spans[bisect_left(self._begins, outer.begin) : bisect_right(self._begins, outer.end)]

    def us(self, outer: Span) -> float:
        """Microseconds of a span that are covered, by those that begin in it."""
        return sum(min(span.end, outer.end) - span.begin for span in self.inside(outer)) / 1e3

    def covered_us(self, begin: int, end: int) -> float:
        """Microseconds between two times that are covered."""
        first = max(bisect_right(self._begins, begin) - 1, 0)
        spans = self._spans[first : bisect_left(self._begins, end)]
        return sum(max(0, min(span.end, end) - max(span.begin, begin)) for span in spans) / 1e3
