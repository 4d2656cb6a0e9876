"""What an engine did and when, as a chrome-trace file: requests, scheduler, host and device."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import ConfigError
from deepinfer.profile.span import Lane, Span

# Lanes are chrome's processes, so many numbers for each rank; rows are its threads.
_RANK: Final = 10
_LANES: Final = {1: "requests", 2: "scheduler", 3: "host", 4: "device"}
_ROWS: Final[dict[Lane, tuple[int, int, str]]] = {
    "request": (1, 1, "requests"),
    "scheduler": (2, 1, "decisions"),
    "host": (3, 1, "phases"),
    "device": (4, 1, "steps"),
    "call": (4, 2, "native calls"),
    "op": (4, 3, "ops"),
    "halves": (4, 4, "halves of steps"),
    "exchange 1": (4, 5, "first half, between ranks"),
    "exchange 2": (4, 6, "second half, between ranks"),
}
_MAX_BYTES: Final = 1 << 29


@dataclass(slots=True)
class StepTrace:
    """Filled when the recording ends.

    Attributes:
        spans: of all lanes and ranks, in no order; those of a lane lie behind or inside each other, but for requests.
            Ranks on other machines have clocks of their own.
        modes: what ran: backend, numerics, threads, drafts, overlap.
        num_lost: native spans that found no room.
    """

    spans: list[Span] = field(default_factory=list)
    modes: dict[str, Any] = field(default_factory=dict)
    num_lost: int = 0

    def of_rank(self, rank: int) -> StepTrace:
        """What belongs to one rank."""
        return replace(self, spans=[span for span in self.spans if span.rank == rank])

    def to_chrome(self) -> dict[str, Any]:
        """The trace event format that chrome://tracing and ui.perfetto.dev read, microseconds from the first span on.

        A request is a group of asynchronous events under its number; everything else is a complete event. Native calls
        lie in the device's lane: with overlap they run on its thread.
        """
        start = min((span.begin for span in self.spans), default=0)
        ordered = sorted(self.spans, key=lambda span: (span.begin, -span.end))
        events = [event for span in ordered if span.lane != "request" for event in _complete(span, start)]
        requests = [span for span in ordered if span.lane == "request"]
        other = {**self.modes, "num_lost": self.num_lost}
        content = [*_names(self.spans), *_asynchronous(requests, start), *events]
        return {"traceEvents": content, "displayTimeUnit": "ms", "otherData": other}

    def write(self, path: Path) -> None:
        """Raises ConfigError when it cannot be written."""
        try:
            path.write_text(json.dumps(self.to_chrome()), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{str(path)!r} cannot be written ({error})") from error

    @classmethod
    def read(cls, path: Path) -> StepTrace:
        """A file that `write` made. Raises ConfigError for any other."""
        content = read_json_object(path, max_bytes=_MAX_BYTES)
        other = content.get("otherData")
        try:
            if not isinstance(other, dict):
                raise TypeError("otherData is no object")
            modes = dict(other)
            return cls(list(_spans(content["traceEvents"])), modes, int(modes.pop("num_lost")))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{str(path)!r} is no trace of deepinfer ({error!r})") from error


def _names(spans: Iterable[Span]) -> Iterator[dict[str, Any]]:
    """Of all lanes of ranks that there are, and of rows that hold something."""
    used = {(span.rank, span.lane) for span in spans}
    ranks = sorted({rank for rank, _ in used} | {0})
    for rank in ranks:
        for lane, name in _LANES.items():
            number, shown = _RANK * rank + lane, name if len(ranks) == 1 else f"rank {rank}, {name}"
            yield {"name": "process_name", "ph": "M", "pid": number, "tid": 0, "args": {"name": shown}}
            yield {"name": "process_sort_index", "ph": "M", "pid": number, "tid": 0, "args": {"sort_index": number}}
    for rank, kind in sorted(used):
        lane, row, name = _ROWS[kind]
        yield {"name": "thread_name", "ph": "M", "pid": _RANK * rank + lane, "tid": row, "args": {"name": name}}


def _common(span: Span, moment: int) -> dict[str, Any]:
    lane, row, _ = _ROWS[span.lane]
    return {"name": span.name, "cat": span.lane, "pid": _RANK * span.rank + lane, "tid": row, "ts": moment / 1e3}


def _complete(span: Span, start: int) -> Iterator[dict[str, Any]]:
    length = (span.end - span.begin) / 1e3
    yield {**_common(span, span.begin - start), "ph": "X", "dur": length, "args": span.details}


def _asynchronous(spans: list[Span], start: int) -> list[dict[str, Any]]:
    """Begin and end of each span, in the order of time; those of a request, which begins with its whole life, share a
    number. What takes no time is one event.
    """
    number = 0
    numbers: dict[str, int] = {}
    events: list[tuple[int, int, dict[str, Any]]] = []
    for place, span in enumerate(spans):
        if span.name == "request":
            number += 1
            numbers[span.details["request_id"]] = number
        known = {"id": numbers[span.details["request_id"]], "args": span.details}
        if span.begin == span.end:
            events.append((span.begin, -place, {**_common(span, span.begin - start), "ph": "n", **known}))
            continue
        events.append((span.begin, place, {**_common(span, span.begin - start), "ph": "b", **known}))
        events.append((span.end, -place, {**_common(span, span.end - start), "ph": "e", **known}))
    return [event for _, _, event in sorted(events, key=lambda item: item[:2])]


def _spans(events: Iterable[dict[str, Any]]) -> Iterator[Span]:
    begun: dict[tuple[int, str], int] = {}
    for event in events:
        kind = event["ph"]
        if kind == "M":
            continue
        lane, moment = event["cat"], round(event["ts"] * 1e3)
        if lane not in _ROWS:
            raise ValueError(f"there is no lane {lane!r}")
        name, details, rank = str(event["name"]), dict(event["args"]), int(event["pid"]) // _RANK
        if kind == "b":
            begun[event["id"], name] = moment
        elif kind == "e":
            yield Span(name, lane, begun.pop((event["id"], name)), moment, details, rank)
        else:
            length = round(event["dur"] * 1e3) if kind == "X" else 0
            yield Span(name, lane, moment, moment + length, details, rank)
