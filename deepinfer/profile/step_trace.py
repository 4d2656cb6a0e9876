"""What steps did and when: spans of host code, native calls and ops, as a chrome-trace file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deepinfer.config.strict_json import read_json_object
from deepinfer.errors import ConfigError
from deepinfer.profile.span import Lane, Span

_LANES: Final = {"host": (1, "host"), "call": (1, "host"), "op": (2, "kernels")}  # thread number and its name
_MAX_BYTES: Final = 1 << 29
_CATEGORIES: Final[dict[str, Lane]] = {"host": "host", "call": "call", "op": "op"}


@dataclass(slots=True)
class StepTrace:
    """Filled when the recording ends.

    Attributes:
        spans: host code, native calls and ops, in no order; those of a lane lie behind or inside each other.
        modes: what ran: backend, numerics, threads.
        num_lost: native spans that found no room.
    """

    spans: list[Span] = field(default_factory=list)
    modes: dict[str, Any] = field(default_factory=dict)
    num_lost: int = 0

    def to_chrome(self) -> dict[str, Any]:
        """The trace event format that chrome://tracing and ui.perfetto.dev read: complete events, microseconds from
        the first span on. Native calls lie in the host's lane, inside the phase that made them; ops have their own.
        """
        start = min((span.begin for span in self.spans), default=0)
        names = [_name("process_name", 0, "deepinfer")]
        names += [_name("thread_name", number, name) for number, name in dict(_LANES.values()).items()]
        events = [_event(span, start) for span in sorted(self.spans, key=lambda span: (span.begin, -span.end))]
        other = {**self.modes, "num_lost": self.num_lost}
        return {"traceEvents": [*names, *events], "displayTimeUnit": "ms", "otherData": other}

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


def _name(kind: str, number: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": number, "args": {"name": name}}


def _event(span: Span, start: int) -> dict[str, Any]:
    return {
        "name": span.name,
        "cat": span.lane,
        "ph": "X",
        "pid": 1,
        "tid": _LANES[span.lane][0],
        "ts": (span.begin - start) / 1e3,
        "dur": (span.end - span.begin) / 1e3,
        "args": span.details,
    }


def _spans(events: Iterable[dict[str, Any]]) -> Iterable[Span]:
    for event in events:
        if event["ph"] == "X":
            begin, length = round(event["ts"] * 1e3), round(event["dur"] * 1e3)
            yield Span(str(event["name"]), _CATEGORIES[event["cat"]], begin, begin + length, dict(event["args"]))
