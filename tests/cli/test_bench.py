"""The commands that measure drafts: tables, JSON, files and refusals."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from deepinfer.bench.draft_counts import DraftCounts
from deepinfer.bench.draft_mode import DraftMode
from deepinfer.bench.speculative_bench import ModeFigures
from deepinfer.cli.bench import mode_table
from deepinfer.config.speculative_config import SpeculativeConfig
from deepinfer.engine.draft_calibration import DraftCalibration
from tests.cli.test_main import MODEL, invoke


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(json.dumps({"prompt": [9, 20 + i, 31]}) for i in range(9)))
    return file


def test_three_modes_side_by_side(prompts: Path, tmp_path: Path) -> None:
    curve = tmp_path / "curve.json"
    curve.write_text(json.dumps({"step": [[n, float(n)] for n in range(1, 65)], "draft": [[8, 2.0]]}))
    options = [*MODEL, "--batch", "3", "--max-tokens", "8", "--repeats", "1", "--prompts", str(prompts)]
    rows = json.loads(invoke("bench", "speculative", *options, "--curve", str(curve), "--json"))
    off, fixed, scheduled = rows
    assert [row["mode"] for row in rows] == ["off", "fixed", "scheduled"]
    assert all(row["tokens"] == 24 and row["tokens_per_second"] > 0 for row in rows)
    assert (
        off["ratio_to_off"] == off["tokens_per_step"] == 1
        and off["verify_steps"] == 0
        and off["tokens_per_verify_step"] is None
    )
    assert fixed["undrafted_steps"] == 0 and fixed["tokens_per_verify_step"] >= 1
    assert sum(scheduled["verified_at"]) < sum(fixed["verified_at"])


def test_what_would_be_in_vain_is_refused_before_a_model_is_loaded(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepinfer.llm.LLM.__init__", None)  # would fail
    bench, directory = ["bench", "speculative", *MODEL], str(tmp_path)
    invoke(*bench, "--curve", "no/such/curve.json", code=2)
    invoke(*bench, "--num-drafts", "99", code=2)
    for path in ("no/such/prompts.jsonl", directory, "x" * 5000):
        invoke(*bench, "--prompts", path, code=2)
        invoke("bench", "acceptance", *MODEL, "--prompts", path, code=2)
        invoke("calibrate", path, "-o", directory + "/new.json", *MODEL, code=2)
    for path in (directory, directory + "/no/such.json"):
        invoke("calibrate", str(prompts), "-o", path, *MODEL, code=2)
    for path in (directory, directory + "/no/such.svg", directory + "/plot.xyz"):
        invoke(*bench, "--plot", path, code=2)


def test_a_prompt_that_fails_ends_the_bench(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("[99999]\n")
    options = [*MODEL, "--batch", "1", "--max-tokens", "2", "--repeats", "1", "--curve", "measure"]
    invoke("bench", "speculative", *options, "--prompts", str(file), code=2)


def test_rejection_can_be_measured(prompts: Path) -> None:
    options = [*MODEL, "--max-tokens", "4", "--prompts", str(prompts), "--temperature", "1"]
    report = json.loads(invoke("bench", "acceptance", *options, "--acceptance", "rejection", "--json"))
    assert report["prompts.jsonl"]["tokens"] == 36


def test_acceptance_over_prompts(prompts: Path) -> None:
    options = [*MODEL, "--max-tokens", "4", "--prompts", str(prompts), "--num-drafts", "2"]
    report = json.loads(invoke("bench", "acceptance", *options, "--json"))["prompts.jsonl"]
    assert report["tokens"] == 36 and len(report["verified_at"]) == 2
    assert "prompts.jsonl" in invoke("bench", "acceptance", *options)
    invoke("bench", "acceptance", *options[:-2], "--num-drafts", "99", code=2)


def test_calibration_file_is_what_an_engine_takes(prompts: Path, tmp_path: Path) -> None:
    output = tmp_path / "calibration.json"
    text = invoke("calibrate", str(prompts), "-o", str(output), *MODEL, "--max-tokens", "6", "--temperature", "0")
    assert "held-out calibration error" in text and ("could not" in text or "fell by" in text)
    temperatures = json.loads(output.read_text())["temperatures"]
    assert SpeculativeConfig.parse(output).temperatures == tuple(temperatures)
    one = tmp_path / "one.jsonl"
    one.write_text("[9, 20, 31]")  # nothing can be held out
    invoke("calibrate", str(one), "-o", str(output), *MODEL, code=2)


def test_table_of_modes(capsys: pytest.CaptureFixture[str]) -> None:
    none = np.zeros((1, 160))
    calibration = DraftCalibration(none.astype(int), none.astype(int), none)
    counts = DraftCounts(30, 5, 10, 10, 3, 9, 25, 40, 15, (40,), (15,), calibration)
    figures = [ModeFigures(mode, 12.5, 1.5, counts) for mode in DraftMode]
    Console(file=sys.stdout, width=120).print(mode_table(figures, 8))
    text = capsys.readouterr().out
    assert all(word in text for word in ("batch 8", "scheduled", "12.5", "1.50", "2.50", "4.00", "30%"))


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    invoke("bench", "speculative", *MODEL, "--plot", str(tmp_path / "plot.svg"), code=2)
