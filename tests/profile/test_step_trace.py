"""Traces: what is recorded, the file, and its summary."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.errors import ConfigError
from deepinfer.profile.span import Span
from deepinfer.profile.step_trace import StepTrace
from deepinfer.profile.trace_summary import TraceSummary
from tests.support.golden_case import GOLDEN

PHASES = ["schedule", "execute", "update", "emit"]


def inside(spans: Sequence[Span], outer: Span) -> list[Span]:
    return sorted((s for s in spans if outer.begin <= s.begin and s.end <= outer.end), key=lambda s: s.begin)


def made_up() -> StepTrace:
    """Two decode steps of 100 us, 20 us apart, behind a prefill: each 50 and 10 us in calls, 40 and 5 us in ops."""
    spans = [Span("step", "host", 0, 10_000, {"kind": "prefill"})]
    for start in (20_000, 140_000):
        spans += [
            Span("schedule", "host", start, start + 5_000),
            Span("execute", "host", start + 5_000, start + 85_000),
            Span("forward", "call", start + 10_000, start + 60_000),
            Span("moe", "op", start + 10_000, start + 50_000),
            Span("matmul", "op", start + 20_000, start + 30_000),  # inside the other: counts once
            Span("sample", "call", start + 70_000, start + 80_000),
            Span("argmax", "op", start + 70_000, start + 75_000),
            Span("step", "host", start, start + 100_000, {"kind": "decode"}),
        ]
    return StepTrace(spans, {"backend": "cpu"}, 3)


def test_summary_of_a_made_up_trace() -> None:
    summary = TraceSummary.of(made_up(), "decode")
    assert summary.num_steps == 2 and summary.step_us == 100
    assert summary.native_share == 0.6 and summary.kernel_share == 0.45
    assert summary.native_share_of_loop == 0.5  # 60 of the 120 us from the first step to the second
    phases = {item.name: (item.us, item.native_us, item.kernel_us, item.gap_us) for item in summary.phases}
    assert phases == {
        "schedule": (5, 0, 0, 5),
        "execute": (80, 60, 45, 20),
        "between steps": (20, 0, 0, 20),
    }
    assert summary.ops == (("moe", 1, 40), ("argmax", 1, 5))
    assert json.loads(json.dumps(summary.to_dict()))["phases"][1]["gap_us"] == 20
    assert summary.exchanges is None and summary.to_dict()["exchanges"] is None
    with pytest.raises(ConfigError, match="no verify step"):
        TraceSummary.of(made_up(), "verify")


def test_what_of_exchanges_was_waited_for() -> None:
    """In the first step of two halves 30 and 20 us are on their way, and 10 waited for; in the other, half as much."""
    trace = made_up()
    for start, scale in ((20_000, 1_000), (140_000, 500)):
        trace.spans += [
            Span("dispatch, half 1", "exchange 1", start + 10 * scale, start + 40 * scale),
            Span("dispatch, half 2", "exchange 2", start + 20 * scale, start + 40 * scale),
            Span("compute, half 2", "halves", start + 10 * scale, start + 20 * scale),
            Span("wait for dispatch, half 1", "halves", start + 30 * scale, start + 40 * scale),
            Span("dispatch, half 1", "exchange 1", start, start + 90 * scale, {}, rank=1),
        ]
    exchanges = TraceSummary.of(trace, "decode").exchanges
    assert exchanges is not None and (exchanges.flight_us, exchanges.waited_us) == (37.5, 7.5)
    assert exchanges.hidden_share == 0.8 and exchanges.to_dict()["hidden_share"] == 0.8


def test_file_is_a_chrome_trace_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    made_up().write(file)
    content = json.loads(file.read_text())
    rows = [event for event in content["traceEvents"] if event["name"] == "thread_name"]
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in rows}
    complete = [event for event in content["traceEvents"] if event["ph"] == "X"]
    lanes = {event["name"]: names[event["pid"], event["tid"]] for event in complete}
    assert (lanes["step"], lanes["forward"], lanes["moe"]) == ("phases", "native calls", "ops")
    back = StepTrace.read(file)
    assert TraceSummary.of(back, "decode") == TraceSummary.of(made_up(), "decode")
    assert back.modes == {"backend": "cpu"} and back.num_lost == 3
    unknown = {"ph": "X", "cat": "moon", "ts": 0, "dur": 1, "name": "step", "args": {}}
    unbegun = {"ph": "e", "cat": "request", "ts": 0, "id": 1, "name": "queued", "args": {}}
    wrong = [json.dumps({"traceEvents": [event], "otherData": {"num_lost": 0}}) for event in (unknown, unbegun)]
    for text in (*wrong, "{}", '{"traceEvents": [{"ph": "X"}], "otherData": {"num_lost": 0}}', "[]"):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"trace\.json"):
            StepTrace.read(file)
    with pytest.raises(ConfigError, match="cannot be written"):
        made_up().write(tmp_path / "no" / "such.json")


def test_phases_calls_and_ops_nest() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=3, ignore_eos=True)
    with LLM(GOLDEN / "nano-s1", backend="cpu", numerics="fp32", speculative="off", max_num_seqs=2) as llm:
        with llm.trace() as trace:
            outputs = llm.generate([[5, 6, 7], [8, 9]], params, use_tqdm=False)
            with pytest.raises(ConfigError, match="being traced already"), llm.trace():
                pass
        number = len(trace.spans)
        again = llm.generate([[5, 6, 7], [8, 9]], params, use_tqdm=False)
    assert number == len(trace.spans) and trace.num_lost == 0  # the recording has ended
    assert [o.outputs[0].token_ids for o in outputs] == [o.outputs[0].token_ids for o in again]
    steps = [span for span in trace.spans if span.name == "step"]
    assert [step.details["kind"] for step in steps] == ["prefill", "decode", "decode"]
    assert steps[1].details["num_seqs"] == steps[1].details["num_tokens"] == 2
    for step in steps:
        hosts = [s for s in inside(trace.spans, step) if s.lane == "host" and s.name != "step"]
        assert [span.name for span in hosts] == PHASES
        calls = [s for s in inside(trace.spans, hosts[1]) if s.lane == "call"]
        around = [] if step.details["kind"] == "prefill" else ["choose"]  # a plain decode step ends in one call
        assert [span.name for span in calls] == ["forward", *around, "logits", "sample"]
        assert [s for s in inside(trace.spans, step) if s.lane == "call"] == calls
        assert {"moe", "sparse_attention", "hc_mix"} <= {s.name for s in inside(trace.spans, calls[0])}


def test_reference_backend_has_no_native_calls() -> None:
    params = SamplingParams(temperature=0.0, max_tokens=2, ignore_eos=True)
    with LLM(GOLDEN / "nano-s1", backend="reference", numerics="fp32", speculative="off", max_num_seqs=1) as llm:
        with pytest.raises(RuntimeError, match="mine"), llm.trace() as trace:
            llm.generate([[5, 6, 7]], params, use_tqdm=False)
            raise RuntimeError("mine")
        assert {span.lane for span in trace.spans} == {"request", "scheduler", "host", "device"}
        assert TraceSummary.of(trace, "decode").native_share == 0
        with llm.trace():  # the broken one has ended
            pass
