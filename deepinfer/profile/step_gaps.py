"""How long the device worked on a step and how long it waited for the host, from a trace."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from deepinfer.profile.busy_time import BusyTime
from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace

_WAITS: Final = ("execute", "wait")  # phases in which the host does nothing but see to the device
_LAUNCHES: Final = ("launch forward", "launch sample")


class _DeviceStep(NamedTuple):
    """Both parts of a step, and the end of the step before it on the device (None: the first of the trace)."""

    forward: Span
    sample: Span
    previous_end: int | None


@dataclass(frozen=True, slots=True)
class StepGaps:
    """Of the steps of one kind; times are medians in microseconds.

    Attributes:
        kind: "decode" or "prefill".
        num_steps: those whose parts on the device are in the trace.
        device_us: forward pass and sampling on the device.
        idle_before_us: from the end of the step before it on the device to its own beginning there; None when no step
            has one before it. What the callers take between two steps counts.
        idle_inside_us: from the end of its forward pass to the beginning of its sampling.
        idle_share: the median share of both in the time from the end of the step before it to its own end; None like
            `idle_before_us`.
        host_us: what the engine's call took that planned the step, without waits and launches: the books.
        launch_us: its launches; a launch may do the work itself where that has to run on the caller's thread.
        wait_us: its waits; without overlap launches and waits are one phase, which stands here.
        hidden_share: share of `host_us`, over all steps, during which the device was busy.
    """

    kind: str
    num_steps: int
    device_us: float
    idle_before_us: float | None
    idle_inside_us: float
    idle_share: float | None
    host_us: float
    launch_us: float
    wait_us: float
    hidden_share: float

    @classmethod
    def of(cls, trace: StepTrace) -> tuple[StepGaps, ...]:
        """One for each kind that the trace has, decode first; none for a trace without a device's lane."""
        found = _device_steps(trace)
        kinds = sorted({str(step.forward.details.get("kind")) for step in found})
        return tuple(_gaps(trace, kind, [s for s in found if s.forward.details.get("kind") == kind]) for kind in kinds)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return asdict(self)


def _device_steps(trace: StepTrace) -> list[_DeviceStep]:
    """In the order of the device."""
    parts: dict[int, dict[str, Span]] = {}
    for span in trace.spans:
        if span.lane == "device":
            parts.setdefault(span.details["step_id"], {})[span.name] = span
    whole = [(part["forward"], part["sample"]) for part in parts.values() if len(part) == 2]
    whole.sort(key=lambda pair: pair[0].begin)
    ends = [None, *(sample.end for _, sample in whole)]
    return [_DeviceStep(forward, sample, end) for (forward, sample), end in zip(whole, ends, strict=False)]


def _gaps(trace: StepTrace, kind: str, steps: Sequence[_DeviceStep]) -> StepGaps:
    behind = [(step, step.previous_end) for step in steps if step.previous_end is not None]
    waited = [step.forward.begin - end for step, end in behind]
    shares = [1 - _busy(step) / max(step.sample.end - end, 1) for step, end in behind]
    calls = [span for span in trace.spans if span.name == "step" and span.details.get("kind") == kind]
    waits, launches = (BusyTime(span for span in trace.spans if span.name in names) for names in (_WAITS, _LAUNCHES))
    device = BusyTime(span for span in trace.spans if span.lane == "device")
    books = [(call.end - call.begin) / 1e3 - waits.us(call) - launches.us(call) for call in calls]
    hidden = [_hidden_us(call, device, [*waits.inside(call), *launches.inside(call)]) for call in calls]
    return StepGaps(
        kind=kind,
        num_steps=len(steps),
        device_us=statistics.median(map(_busy, steps)) / 1e3,
        idle_before_us=statistics.median(waited) / 1e3 if waited else None,
        idle_inside_us=statistics.median(step.sample.begin - step.forward.end for step in steps) / 1e3,
        idle_share=statistics.median(shares) if shares else None,
        host_us=statistics.median(books or [0.0]),
        launch_us=statistics.median([launches.us(call) for call in calls] or [0.0]),
        wait_us=statistics.median([waits.us(call) for call in calls] or [0.0]),
        hidden_share=sum(hidden) / max(sum(books), 1e-3),
    )


def _busy(step: _DeviceStep) -> int:
    """Nanoseconds that the device worked on it."""
    return step.forward.end - step.forward.begin + step.sample.end - step.sample.begin


def _hidden_us(call: Span, device: BusyTime, others: Sequence[Span]) -> float:
    """Microseconds of a call, without the `others` in it, in which the device was busy."""
    return device.covered_us(call.begin, call.end) - sum(device.covered_us(other.begin, other.end) for other in others)
