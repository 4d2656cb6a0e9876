"""When a request waited, was prefilled, decoded and ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deepinfer.outputs import RequestOutput
from deepinfer.profile.span import Span


@dataclass(frozen=True, slots=True)
class RequestLife:
    """Times are seconds of `time.monotonic`; None for what has not happened.

    Attributes:
        request_id: its public id.
        arrived: it entered the engine.
        scheduled: its first prefill step was planned.
        answered: its first token was booked.
        ended: its output was complete.
        details: how it ended: "finish_reason" of its first choice, "num_tokens" of all, "num_preemptions".
    """

    request_id: str
    arrived: float
    scheduled: float | None
    answered: float | None
    ended: float | None
    details: dict[str, Any]

    @classmethod
    def of(cls, output: RequestOutput) -> RequestLife | None:
        """Of a request that has ended; None when it never entered the engine."""
        times = output.metrics
        if times is None or times.arrival_time is None:
            return None
        details = {
            "finish_reason": output.outputs[0].finish_reason if output.outputs else "error",
            "num_tokens": times.num_generated_tokens,
            "num_preemptions": times.num_preemptions,
        }
        first, last = times.first_scheduled_time, times.finished_time
        return cls(output.request_id, times.arrival_time, first, times.first_token_time, last, details)

    def spans(self, offset: int, begin: int, end: int) -> Iterator[Span]:
        """The whole life, inside it "queued", "prefill" and "decode", and at its end "ended", which takes no time.

        Args:
            offset: nanoseconds from `time.monotonic_ns` to `time.perf_counter_ns`.
            begin, end: of the trace; a life may reach beyond.
        """
        known = {"request_id": self.request_id}
        edges = [self.arrived, self.scheduled, self.answered, self.ended]
        marks = [None if edge is None else min(max(round(edge * 1e9) + offset, begin), end) for edge in edges]
        last = end if marks[3] is None else marks[3]
        yield Span("request", "request", marks[0] or begin, last, {**known, **self.details})
        for place, name in enumerate(("queued", "prefill", "decode")):
            start = marks[place]
            if start is not None:
                stop = next((mark for mark in marks[place + 1 :] if mark is not None), end)
                yield Span(name, "request", start, stop, known)
        if marks[3] is not None:
            yield Span("ended", "request", last, last, {**known, **self.details})
