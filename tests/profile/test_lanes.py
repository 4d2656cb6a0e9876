"""The four lanes of a trace, with and without overlap: requests, scheduler, host and device; and the way to a file."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.profile.request_life import RequestLife
from deepinfer.profile.span import Lane, Span
from deepinfer.profile.step_trace import StepTrace
from tests.support.golden_case import GOLDEN

OPTIONS = {"backend": "cpu", "numerics": "fp32", "speculative": "off", "max_num_seqs": 2}
PARAMS = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)


def lane_of(trace: StepTrace, lane: Lane) -> list[Span]:
    return sorted((span for span in trace.spans if span.lane == lane), key=lambda span: span.begin)


def known(spans: Sequence[Span]) -> Counter[tuple[object, ...]]:
    """What a file keeps to the nanosecond: names, lanes, lengths and details."""
    return Counter((s.name, s.lane, s.end - s.begin, json.dumps(s.details, sort_keys=True)) for s in spans)


@pytest.mark.parametrize("overlap", [False, True])
def test_lanes_of_a_run(overlap: bool, tmp_path: Path) -> None:
    with LLM(GOLDEN / "nano-s1", overlap=overlap, **OPTIONS) as llm:
        with llm.trace() as trace:
            llm.generate([[5, 6, 7], [8, 9], [4]], PARAMS, request_ids=["a", "b", "c"], use_tqdm=False)
        steps = llm.stats().num_steps
    assert trace.modes["overlap"] is overlap

    device = lane_of(trace, "device")
    assert [span.name for span in device] == ["forward", "sample"] * (len(device) // 2)
    assert all(one.end <= other.begin for one, other in zip(device, device[1:], strict=False))
    forwards, samples = device[::2], device[1::2]
    assert [span.details for span in forwards] == [span.details for span in samples]
    numbers = [span.details["step_id"] for span in forwards]
    assert numbers == sorted(set(numbers)) and len(numbers) <= steps
    assert Counter(span.details["kind"] for span in forwards) == {"prefill": 2, "decode": 6}
    rows = {span.details["step_id"]: span.details["num_tokens"] for span in forwards}

    decisions = lane_of(trace, "scheduler")
    updates = [span for span in decisions if span.name == "update"]
    assert {span.name for span in decisions} == {"schedule", "update"}
    assert {span.details["step_id"]: span.details["num_tokens"] for span in updates} == rows
    ends = {span.details["step_id"]: span.end for span in samples}
    assert all(ends[span.details["step_id"]] <= span.begin for span in updates)

    calls, parts = lane_of(trace, "call"), [(span.begin, span.end) for span in device]
    assert calls and all(any(b <= call.begin and call.end <= e for b, e in parts) for call in calls)

    lives = {name: [s for s in lane_of(trace, "request") if s.details["request_id"] == name] for name in "abc"}
    for spans in lives.values():
        whole, queued, prefill, decode, ended = spans
        assert [span.name for span in spans] == ["request", "queued", "prefill", "decode", "ended"]
        assert (queued.begin, queued.end, prefill.end, decode.end) == (
            whole.begin,
            prefill.begin,
            decode.begin,
            whole.end,
        )
        assert ended.begin == ended.end == whole.end and whole.details["finish_reason"] == "length"
        assert whole.details["num_tokens"] == 4
    assert lives["c"][1].end >= min(lives["a"][0].end, lives["b"][0].end)  # it waits for a seat

    trace.write(tmp_path / "trace.json")
    again = StepTrace.read(tmp_path / "trace.json")
    assert known(again.spans) == known(trace.spans) and again.modes == trace.modes
    assert again.to_chrome() == json.loads((tmp_path / "trace.json").read_text())


def test_host_works_while_the_device_does_with_overlap_only() -> None:
    """What is hidden, in the order of the trace's own times: a step's books begin before the next one ends there."""
    behind: dict[bool, int] = {}
    for overlap in (False, True):
        with LLM(GOLDEN / "nano-s1", overlap=overlap, **OPTIONS) as llm, llm.trace() as trace:
            llm.generate([[5, 6, 7]], PARAMS.replace(max_tokens=20), use_tqdm=False)
        launched = {s.details["step_id"]: s.begin for s in lane_of(trace, "host") if s.name == "launch forward"}
        updates = [s for s in lane_of(trace, "scheduler") if s.name == "update"]
        behind[overlap] = sum(launched.get(s.details["step_id"] + 1, s.end) < s.begin for s in updates)
    assert behind == {False: 0, True: 18}  # all but the prefill and the last step


def test_unfinished_requests_show_until_the_end() -> None:
    with LLM(GOLDEN / "nano-s1", overlap=True, **OPTIONS) as llm:
        with llm.trace() as trace:
            stream = llm.stream([5, 6, 7], PARAMS.replace(max_tokens=30))
            next(stream)
            next(stream)
        stream.close()
        with llm.trace() as later:
            llm.generate([[5]], PARAMS, use_tqdm=False)
    assert [span.name for span in lane_of(trace, "request")] == ["request", "queued", "prefill", "decode"]
    whole = lane_of(trace, "request")[0]
    assert whole.details["num_tokens"] >= 2 and whole.end >= max(span.end for span in lane_of(trace, "host"))
    assert len(lane_of(later, "request")) == 5


def test_lives_are_cut_to_the_trace() -> None:
    life = RequestLife("r", 1.0, 2.0, None, 4.0, {"finish_reason": "abort"})
    spans = list(life.spans(500, 1_500_000_000, 3_000_000_000))
    edges = [(span.name, span.begin, span.end) for span in spans]
    assert edges == [
        ("request", 1_500_000_000, 3_000_000_000),
        ("queued", 1_500_000_000, 2_000_000_500),
        ("prefill", 2_000_000_500, 3_000_000_000),
        ("ended", 3_000_000_000, 3_000_000_000),
    ]
    trace = StepTrace([*spans, *RequestLife("r", 5.0, None, None, None, {}).spans(0, 0, 6_000_000_000)])
    events = [event for event in trace.to_chrome()["traceEvents"] if event["ph"] in "ben"]
    assert [(event["ph"], event["name"], event["id"]) for event in events] == [
        ("b", "request", 1),
        ("b", "queued", 1),
        ("e", "queued", 1),
        ("b", "prefill", 1),
        ("n", "ended", 1),
        ("e", "prefill", 1),
        ("e", "request", 1),
        ("b", "request", 2),  # the same name again
        ("b", "queued", 2),
        ("e", "queued", 2),
        ("e", "request", 2),
    ]
