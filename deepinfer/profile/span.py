"""One named stretch of time in a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["request", "scheduler", "host", "device", "call", "op", "halves", "exchange 1", "exchange 2"]


@dataclass(frozen=True, slots=True)
class Span:
    """Times are nanoseconds of `time.perf_counter_ns`.

    Attributes:
        name: a phase of a request or of the loop, a part of a step on the device, a native call or an op.
        lane: "request" (its life), "scheduler" (its decisions), "host" (phases of the loop, in Python), "device" (a
            step's forward pass and sampling), "call" (a native call), "op" (an op inside one), "halves" (what the
            halves of a step compute and wait for, where ranks share experts), or "exchange 1" and "exchange 2" (what of
            the first and the second half is on its way between ranks).
        begin, end: when.
        details: what else is known of it. Of what belongs to a step its "kind", "step_id", "num_seqs" and "num_tokens"
            (rows); of a request its "request_id", and how it ended.
        rank: whose it is.
    """

    name: str
    lane: Lane
    begin: int
    end: int
    details: dict[str, Any] = field(default_factory=dict)
    rank: int = 0
