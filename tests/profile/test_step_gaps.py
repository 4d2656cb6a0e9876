"""Waits of device and host from a trace that was made up, so that every number is known."""

import pytest

from deepinfer.profile.busy_time import BusyTime
from deepinfer.profile.span import Span
from deepinfer.profile.step_gaps import StepGaps
from deepinfer.profile.step_trace import StepTrace
from deepinfer.profile.trace_summary import TraceSummary


def device_step(step_id: int, kind: str, begin: int, gap: int) -> list[Span]:
    """A forward pass of 80 us, a gap, sampling of 20 us."""
    details = {"step_id": step_id, "kind": kind}
    end = begin + 80_000
    return [
        Span("forward", "device", begin, end, details),
        Span("sample", "device", end + gap, end + gap + 20_000, details),
    ]


def overlapped() -> StepTrace:
    """A prefill step, and three decode steps on the device: 5, 5 and 25 us behind the one before, 2 us inside. A call
    of 90 us plans each: 20 us of launches and 40 us of waits; of its 30 us of books 7 us meet an idle device.
    """
    spans = device_step(0, "prefill", 0, 0)
    for place, begin in enumerate((105_000, 212_000, 339_000)):
        spans += device_step(place + 1, "decode", begin, 2_000)
        details = {"step_id": place + 1, "kind": "decode"}
        start = begin - 5_000
        spans += [
            Span("launch forward", "host", start + 10_000, start + 20_000, details),
            Span("wait", "host", start + 20_000, start + 60_000, details),
            Span("launch sample", "host", start + 70_000, start + 80_000, details),
            Span("step", "host", start, start + 90_000, details),
        ]
    return StepTrace(spans, {"overlap": True})


def test_known_gaps() -> None:
    decode, prefill = StepGaps.of(overlapped())
    assert (decode.kind, decode.num_steps, decode.device_us) == ("decode", 3, 100)
    assert (decode.idle_before_us, decode.idle_inside_us) == (5, 2)
    assert decode.idle_share == pytest.approx(7 / 107)
    assert (decode.host_us, decode.launch_us, decode.wait_us) == (30, 20, 40)
    assert decode.hidden_share == pytest.approx(23 / 30)
    assert (prefill.kind, prefill.num_steps, prefill.device_us) == ("prefill", 1, 100)
    assert prefill.idle_before_us is None and prefill.idle_share is None and prefill.host_us == 0
    summary = TraceSummary.of(overlapped(), "decode")
    assert summary.gaps == (decode, prefill) and summary.to_dict()["gaps"][0]["idle_before_us"] == 5


def test_half_a_step_and_no_device_at_all() -> None:
    trace = overlapped()
    trace.spans = [span for span in trace.spans if not (span.name == "sample" and span.details["step_id"] == 2)]
    (decode, _) = StepGaps.of(trace)
    assert decode.num_steps == 2 and decode.idle_before_us == pytest.approx((5 + 132) / 2)
    trace.spans = [span for span in trace.spans if span.lane == "host"]
    assert StepGaps.of(trace) == ()


def test_covered_time() -> None:
    busy = BusyTime([Span("a", "op", 10_000, 20_000), Span("b", "op", 12_000, 14_000), Span("c", "op", 30_000, 40_000)])
    covered = [busy.covered_us(*edges) for edges in ((0, 50_000), (15_000, 35_000), (20_000, 30_000), (13_000, 14_000))]
    assert covered == [20, 10, 0, 1]
    assert busy.covered_us(0, 5_000) == busy.covered_us(60_000, 70_000) == 0
    assert BusyTime([]).covered_us(0, 1) == 0
