"""The commands that measure speed: their fields, and what they refuse."""

import json
from pathlib import Path

import pytest

from deepinfer.cli.report_table import ReportTable
from tests.cli.test_main import MODEL, invoke

SPREAD = {"median", "low", "high"}


def spread_of(figures: dict[str, float], unit: str) -> bool:
    return set(figures) >= {f"{name}_{unit}" for name in SPREAD} and figures[f"low_{unit}"] <= figures[f"high_{unit}"]


def test_scheduler() -> None:
    one = json.loads(invoke("bench", "scheduler", "--num-seqs", "3", "--num-drafts", "2", "--steps", "5", "--json"))
    assert one["num_seqs"] == 3 and one["num_drafts"] == 2 and one["num_steps"] == 5 and one["median_us"] > 0
    assert all(spread_of(part, "us") for part in (one, one["schedule"], one["update"]))
    sizes = ["--num-seqs", "1", "--num-seqs", "2", "--steps", "1"]
    assert [item["num_seqs"] for item in json.loads(invoke("bench", "scheduler", *sizes, "--json"))] == [1, 2]
    lines = invoke("bench", "scheduler", *sizes).splitlines()
    assert len(lines) == 4 and lines[1].split() == ["sequences", "step", "schedule", "update"]
    invoke("bench", "scheduler", "--num-seqs", "0", code=2)


def test_throughput(tmp_path: Path) -> None:
    options = [*MODEL, "--batch", "3", "--output-len", "4", "--repeats", "2"]
    report = json.loads(invoke("bench", "throughput", *options, "--prompt-len", "5", "--json"))
    assert report["batch"] == 3 and report["prompt_tokens"] == 15 and report["new_tokens"] == 12
    assert report["tokens_per_step"] == 3
    assert all(spread_of(report[part], "tokens_per_second") for part in ("prefill", "decode", "overall"))
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("[5, 6]\n")
    assert "batch 3, 6 prompt tokens, 12 new ones" in invoke("bench", "throughput", *options, "--prompts", str(prompts))
    invoke("bench", "throughput", *options, "--backend", "none", code=2)


def test_latency() -> None:
    options = [*MODEL, "--batch", "1", "--batch", "2", "--output-len", "3", "--prompt-len", "4", "--repeats", "1"]
    rows = json.loads(invoke("bench", "latency", *options, "--drafts", "fixed", "--json"))
    assert [row["batch"] for row in rows] == [1, 2]
    assert all(spread_of(row[part], "ms") for row in rows for part in ("first_token", "decode_step"))
    assert "tokens/step" in invoke("bench", "latency", *options)


def test_table_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = ReportTable("title", ("name", "us"))
    table.add("a", "10.0")
    table.show()
    assert capsys.readouterr().out.splitlines() == ["title", "name    us", "a     10.0"]
