"""``deepinfer batch``: jobs from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from deepinfer.cli.main import app
from tests.support.batch_case import write_lines
from tests.support.golden_case import GOLDEN

MODEL = ["--model", str(GOLDEN / "nano-s1"), "--numerics", "fp32"]
ROWS = [{"key": f"r{i}", "text": "ab" * (1 + i), "heat": 0, "topic": "t"} for i in range(9)]
COLUMNS = ["--id-column", "key", "--prompt-column", "text", "--param-column", "temperature=heat"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds of jobs are kept below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def batch(*words: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["batch", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def run(tmp_path: Path, rows: list[Any], *words: object, code: int = 0) -> Path:
    path = write_lines(tmp_path / "in.jsonl", rows)
    batch("run", path, "-o", tmp_path / "job", *MODEL, "--max-tokens", 3, *words, code=code)
    return tmp_path / "job"


def read(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job / "results.jsonl").read_text().splitlines()]


def test_run_status_and_resume(tmp_path: Path) -> None:
    words = [*COLUMNS, "--range-rows", 2, "--max-num-seqs", 2, "--param", "logprobs=0"]
    job = run(tmp_path, ROWS, *words, "--budget-tokens", 10, "--grace", 0, code=4)
    state = json.loads(batch("status", job, "--json").stdout)
    assert state["num_rows"] == 9 and 0 < state["num_ended"] < 9 and state["results"] is None and not state["held"]
    text = batch("status", job).stdout
    assert "not complete" in text and f"deepinfer batch resume {job}" in text
    result = batch("resume", job)
    assert result.stdout == "" and "9 rows, 0 of them failed" in result.stderr
    rows = read(job)
    assert [row["custom_id"] for row in rows] == [row["key"] for row in ROWS]
    assert rows[0]["topic"] == "t" and "text" not in rows[0] and len(rows[0]["completions"][0]["logprobs"]) == 3
    before = (job / "results.jsonl").read_bytes()
    assert "complete already" in batch("resume", job).stderr
    run(tmp_path, ROWS, *words)
    assert (job / "results.jsonl").read_bytes() == before and "complete" in batch("status", job).stdout


def test_failed_rows_change_the_exit_code_and_can_be_retried(tmp_path: Path) -> None:
    job = run(tmp_path, [*ROWS, "{broken"], *COLUMNS, code=1)
    assert read(job)[-1]["error"]["code"] == "invalid_json"
    assert "failed: invalid_json" in batch("status", job).stdout
    batch("resume", job, code=1)
    result = batch("resume", job, "--retry-failed", code=1)
    assert "1 failed rows are done again" in result.stderr and len(read(job)) == 10


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--prompt-column", "nothing"], "none of the 9 rows has a column 'nothing'"),
        (["--format", "openai"], "give --format jsonl for any other file"),
        ([*COLUMNS, "--seed", "-1"], "seed = -1"),
        ([*COLUMNS, "--grace", "-1"], "--grace"),
        ([*COLUMNS, "--budget-tokens", "-1"], "--budget-tokens"),
        ([*COLUMNS, "--max-failures", "-1"], "--max-failures"),
        ([*COLUMNS, "--temperature", "-1"], "temperature must be"),
        ([*COLUMNS, "--param", "heat=1"], "did you mean"),
        ([*COLUMNS, "--param", "top_k"], "expected NAME=VALUE"),
        ([*COLUMNS, "--engine", "block_sise=2"], "did you mean 'block_size'"),
        ([*COLUMNS, "--engine", "batch_invariant=false"], "batch_invariant = False"),
        ([*COLUMNS, "--effort", "lots", "--format", "csv"], "expected one of auto, jsonl"),
    ],
)
def test_wrong_calls(tmp_path: Path, words: list[str], says: str) -> None:
    path = write_lines(tmp_path / "in.jsonl", ROWS)
    result = CliRunner().invoke(app, ["batch", "run", str(path), "-o", str(tmp_path / "job"), *MODEL, *words])
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output


def test_what_cannot_change_on_resume(tmp_path: Path) -> None:
    job = run(tmp_path, ROWS, *COLUMNS, "--budget-tokens", 0, code=4)
    result = batch("resume", job, "--engine", "numerics=official", code=2)
    assert "numerics cannot change once a job has begun" in result.stderr
    assert "holds no job" in batch("resume", tmp_path, code=2).stderr
    assert "holds no job" in batch("status", tmp_path, code=2).stderr
    twice = [*ROWS, ROWS[3]]
    path = write_lines(tmp_path / "twice.jsonl", twice)
    result = batch("run", path, "-o", tmp_path / "other", *MODEL, *COLUMNS, code=2)
    assert "rows 3 and 9" in result.stderr


def test_plan_then_resume_verify_and_explain(tmp_path: Path) -> None:
    path, job = write_lines(tmp_path / "in.jsonl", [*ROWS, "{broken"]), tmp_path / "job"
    words = [path, "-o", job, *MODEL, *COLUMNS, "--max-tokens", 3]
    found = json.loads(batch("plan", *words, "--json").stdout)
    assert found["num_rows"] == 10 and found["failures"] == {"invalid_json": 1} and found["num_allowed_tokens"] == 27
    text = batch("plan", *words).stdout
    assert "time: unknown" in text and f"deepinfer batch resume {job}" in text
    result = batch("resume", job, code=1)
    assert "rows 10 of 10" in result.stderr and "tokens" in result.stderr
    assert batch("resume", job, "--no-progress", code=1).stderr == "the job is complete already\n"
    assert "10 rows ran again, 0 of them" in batch("verify", job).stdout
    assert json.loads(batch("verify", job, "--sample", 2, "--json").stdout)["num_checked"] == 2
    text = batch("explain", job, "r3").stdout
    assert text.startswith("row 3 (r3): done") and "temperature" in text and '"completions"' in text
    story = json.loads(CliRunner().invoke(app, ["explain", str(job), "9", "--json"]).stdout)
    assert story["state"] == "failed" and story["error"]["code"] == "invalid_json"
    assert "no row has the id" in batch("explain", job, "nobody", code=2).stderr
    results = job / "results.jsonl"
    results.write_bytes(results.read_bytes().replace(b"r3", b"r9"))
    assert "not what was merged" in batch("verify", job, code=1).stdout
