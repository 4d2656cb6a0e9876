"""``deepinfer trace`` and ``deepinfer trace summary``."""

import json
from pathlib import Path

from deepinfer.profile.step_trace import StepTrace
from tests.cli.test_main import MODEL, invoke


def test_trace_and_its_summary(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    options = [*MODEL, "--backend", "cpu", "--steps", "2", "--prompt-len", "4", "--overlap"]
    text = invoke("trace", str(file), *options)
    assert "2 decode steps" in text and "inside native calls" in text and "sparse_attention" in text
    assert "overlap True" in text and "idle before" in text
    assert invoke("trace", "summary", str(file)) == text
    report = json.loads(invoke("trace", "summary", str(file), "--json", "--kind", "prefill"))
    assert report["num_steps"] == 1 and report["modes"]["backend"] == "cpu" and report["num_lost"] == 0
    assert [item["kind"] for item in report["gaps"]] == ["decode", "prefill"]
    assert 0 < report["kernel_share"] <= report["native_share"] <= 1
    drafted = json.loads(invoke("trace", *options, "--no-overlap", "--drafts", "--batch", "2", "--json", str(file)))
    assert drafted["modes"]["num_drafts"] > 0 and drafted["modes"]["overlap"] is False


def test_a_trace_shows_what_one_half_computes_while_rows_of_the_other_travel(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    ranks = ["--engine", "data_parallel_size=2", "--engine", "expert_parallel_size=2"]
    ranks += ["--engine", "two_batch_overlap=on"]
    text = invoke("trace", str(file), *MODEL, *ranks, "--batch", "8", "--steps", "2", "--prompt-len", "24")
    assert "num_ranks 2" in text and "exchanges between ranks" in text
    trace = StepTrace.read(file)
    for rank in (0, 1):
        spans = trace.of_rank(rank).spans
        by_half = {half: [s for s in spans if s.lane == f"exchange {half}"] for half in (1, 2)}
        names = {half: {span.name for span in found} for half, found in by_half.items()}
        assert names == {half: {f"dispatch, half {half}", f"combine, half {half}"} for half in (1, 2)}
        computed = [span for span in spans if span.lane == "halves" and span.name.startswith("compute")]
        for half, flights in by_half.items():
            others = [span for span in computed if span.details["half"] != half]
            assert any(a.begin < b.end and b.begin < a.end for a in flights for b in others), (rank, half)
        own = [span for span in spans if span.lane == "halves"]
        own.sort(key=lambda span: span.begin)
        assert all(one.end <= other.begin for one, other in zip(own, own[1:], strict=False))  # one thread
    names_shown = {
        e["args"]["name"] for e in json.loads(file.read_text())["traceEvents"] if e["name"] == "process_name"
    }
    assert {"rank 0, device", "rank 1, device"} <= names_shown


def test_wrong_calls(tmp_path: Path) -> None:
    invoke("trace", str(tmp_path / "no" / "such.json"), code=2)
    invoke("trace", "summary", str(tmp_path / "missing.json"), code=2)
    invoke("trace", str(tmp_path / "trace.json"), *MODEL, "--steps", "0", code=2)
