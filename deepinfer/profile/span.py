"""One named stretch of time in a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Lane = Literal["host", "call", "op"]


@dataclass(frozen=True, slots=True)
class Span:
    """Times are nanoseconds of `time.perf_counter_ns`.

    Attributes:
        name: a phase of the step, a native call or an op.
        lane: "host" (Python), "call" (a native call) or "op" (an op inside one).
        begin, end: when.
        details: what else is known of it; of a step its "kind", "step_id", "num_seqs" and "num_tokens".
    """

    name: str
    lane: Lane
    begin: int
    end: int
    details: dict[str, Any] = field(default_factory=dict)
