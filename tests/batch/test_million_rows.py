"""A million rows are indexed, planned and begun in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NUM_ROWS = 1_000_000
MOST_KIB = 500_000  # what the libraries and the bundled model take, and less than a hundred MiB for the job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def peak_kib(*words: object) -> int:
    """Peak resident memory of a command of ``deepinfer batch`` that is expected to end in order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deepinfer", "batch", *map(str, words)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 4)
    return usage.ru_maxrss


def test_a_million_rows_plan_and_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.jsonl"
    with open(path, "w") as file:
        for i in range(NUM_ROWS):
            prompt = f"What is {i} + {i * 7 % 1000}? Explain the steps in a few words, and name the result at the end."
            file.write(json.dumps({"custom_id": f"request-{i:07d}", "prompt": prompt, "n": i}) + "\n")
    start = ["run", path, "-o", tmp_path / "job", "--max-tokens", 2, "--budget-tokens", 2000, "--num-threads", 1]
    started = peak_kib(*start)
    planned = peak_kib("plan", path, "-o", tmp_path / "planned", "--max-tokens", 2)
    with capsys.disabled():
        sys.stdout.write(f"\n{NUM_ROWS:,} rows: peak {started:,} KiB to start, {planned:,} KiB to plan\n")
    assert (tmp_path / "job" / "rows.idx").stat().st_size == 16 * NUM_ROWS
    assert max(started, planned) < MOST_KIB
