"""``deepinfer trace`` and ``deepinfer trace summary``."""

import json
from pathlib import Path

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


def test_wrong_calls(tmp_path: Path) -> None:
    invoke("trace", str(tmp_path / "no" / "such.json"), code=2)
    invoke("trace", "summary", str(tmp_path / "missing.json"), code=2)
    invoke("trace", str(tmp_path / "trace.json"), *MODEL, "--steps", "0", code=2)
