"""Where the wall time of steps went, from a trace."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepinfer.errors import ConfigError
from deepinfer.profile.busy_time import BusyTime
from deepinfer.profile.exchange_share import ExchangeShare
from deepinfer.profile.span import Span
from deepinfer.profile.step_gaps import StepGaps
from deepinfer.profile.step_trace import StepTrace


@dataclass(frozen=True, slots=True)
class PhaseShare:
    """A phase of the median step.

    Attributes:
        name: of the phase; "between steps" stands for the time from a step to the next one.
        us: median duration in microseconds.
        native_us: median time of it inside native calls.
        kernel_us: median time of it inside ops.
    """

    name: str
    us: float
    native_us: float
    kernel_us: float

    @property
    def gap_us(self) -> float:
        """Time outside of native calls."""
        return max(0.0, self.us - self.native_us)


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Of all steps of one kind, of the first rank.

    Attributes:
        kind: "decode" or "prefill".
        num_steps: how many.
        step_us: median duration in microseconds.
        native_share, kernel_share: median share of a step's wall time inside native calls, and inside their ops.
        native_share_of_loop: the same where a step lasts until the next one begins.
        phases: parts of a step.
        ops: (name, mean calls of a step, median microseconds of a step), the longest first.
        gaps: what the device and the host waited for, by kind of step.
        exchanges: between ranks; None where there were none.
    """

    kind: str
    num_steps: int
    step_us: float
    native_share: float
    kernel_share: float
    native_share_of_loop: float
    phases: tuple[PhaseShare, ...]
    ops: tuple[tuple[str, float, float], ...]
    gaps: tuple[StepGaps, ...] = ()
    exchanges: ExchangeShare | None = None

    @classmethod
    def of(cls, trace: StepTrace, kind: str) -> TraceSummary:
        """Raises ConfigError when no step of that kind was traced."""
        trace = trace.of_rank(0)
        steps = sorted((span for span in trace.spans if span.name == "step"), key=lambda span: span.begin)
        chosen = [step for step in steps if step.details.get("kind") == kind]
        if not chosen:
            raise ConfigError(f"the trace has no {kind} step; trace more steps")
        calls, ops = (BusyTime([s for s in trace.spans if s.lane == lane]) for lane in ("call", "op"))
        pairs = zip(steps, steps[1:], strict=False)
        loops = [Span("loop", "host", a.begin, b.begin) for a, b in pairs if a.details.get("kind") == kind]
        return cls(
            kind=kind,
            num_steps=len(chosen),
            step_us=statistics.median(_us(step) for step in chosen),
            native_share=_share(calls, chosen),
            kernel_share=_share(ops, chosen),
            native_share_of_loop=_share(calls, loops or chosen),
            phases=tuple(_phases(trace, chosen, loops, (calls, ops))),
            ops=tuple(_ops(ops, chosen)),
            gaps=StepGaps.of(trace),
            exchanges=ExchangeShare.of(trace.spans, chosen),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {
            "kind": self.kind,
            "num_steps": self.num_steps,
            "step_us": self.step_us,
            "native_share": self.native_share,
            "kernel_share": self.kernel_share,
            "native_share_of_loop": self.native_share_of_loop,
            "phases": [
                {
                    "name": item.name,
                    "us": item.us,
                    "native_us": item.native_us,
                    "kernel_us": item.kernel_us,
                    "gap_us": item.gap_us,
                }
                for item in self.phases
            ],
            "ops": [{"name": name, "calls": calls, "us": us} for name, calls, us in self.ops],
            "gaps": [item.to_dict() for item in self.gaps],
            "exchanges": None if self.exchanges is None else self.exchanges.to_dict(),
        }


def _us(span: Span) -> float:
    return (span.end - span.begin) / 1e3


def _share(busy: BusyTime, spans: Sequence[Span]) -> float:
    return statistics.median(busy.us(span) / max(_us(span), 1e-3) for span in spans)


def _ops(busy: BusyTime, steps: Sequence[Span]) -> list[tuple[str, float, float]]:
    """Name, mean number of calls and median microseconds in a step; the longest first."""
    counts: Counter[str] = Counter()
    times: dict[str, list[float]] = {}
    for place, step in enumerate(steps):
        for span in busy.inside(step):
            counts[span.name] += 1
            times.setdefault(span.name, [0.0] * len(steps))[place] += _us(span)
    rows = [(name, counts[name] / len(steps), statistics.median(values)) for name, values in times.items()]
    return sorted(rows, key=lambda row: -row[2])


def _phases(
    trace: StepTrace, steps: Sequence[Span], loops: Sequence[Span], busy: tuple[BusyTime, BusyTime]
) -> list[PhaseShare]:
    """In the order of a step; behind them what is between the steps."""
    hosts = sorted((s for s in trace.spans if s.lane == "host" and s.name != "step"), key=lambda span: span.begin)
    begins = [span.begin for span in hosts]
    parts: dict[str, list[Span]] = {}
    for step in steps:
        for span in hosts[bisect_left(begins, step.begin) : bisect_right(begins, step.end)]:
            parts.setdefault(span.name, []).append(span)
    ends = {step.begin: step.end for step in steps}
    rests = [Span("between steps", "host", ends[loop.begin], loop.end) for loop in loops]
    if rests:
        parts["between steps"] = rests
    return [_phase(name, spans, busy) for name, spans in parts.items()]


def _phase(name: str, spans: Sequence[Span], busy: tuple[BusyTime, BusyTime]) -> PhaseShare:
    native, kernel = (statistics.median(lane.us(span) for span in spans) for lane in busy)
    return PhaseShare(name, statistics.median(_us(span) for span in spans), native, kernel)
