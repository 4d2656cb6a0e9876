"""``deepinfer experts``: record and balance."""

import json
from pathlib import Path

from tests.cli.test_main import MODEL, invoke


def test_record_and_balance(tmp_path: Path) -> None:
    loads, plot, prompts = tmp_path / "loads.npz", tmp_path / "plot.svg", tmp_path / "prompts.jsonl"
    prompts.write_text("[3, 4, 5]\n[6, 7]\n")
    options = [*MODEL, "--backend", "cpu", "--prompts", str(prompts), "--max-tokens", "6"]
    assert "5 steps" in invoke("experts", "record", str(loads), *options)
    sizes = json.loads(invoke("experts", "record", str(loads), *options, "--limit", "1", "--json"))
    assert sizes["num_steps"] == 5 and sizes["num_layers"] > 0
    table = invoke("experts", "balance", str(loads), "--ranks", "2", "--extra", "1", "--plot", str(plot))
    assert "peak to mean" in table and "hindsight" in table
    assert plot.read_text().startswith("<svg")
    report = json.loads(invoke("experts", "balance", str(loads), "--ranks", "2", "--json"))
    assert report["num_steps"] == 5 and 1 <= report["peak_to_mean"]["hindsight"] <= report["peak_to_mean"]["initial"]


def test_wrong_calls(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.npz"
    wrong.write_text("no archive")
    invoke("experts", "balance", str(wrong), "--ranks", "2", code=2)
    invoke("experts", "balance", str(tmp_path / "missing.npz"), "--ranks", "2", code=2)
    invoke("experts", "balance", str(wrong), "--ranks", "0", code=2)
    invoke("experts", "record", str(tmp_path / "loads.json"), *MODEL, code=2)
