"""Rows, sampling, acceptance and the draft pass of a decode step on the device, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["interpreted_rows", "interpreted_steps", "interpreted_engine"])
def test_equal_without_a_gpu(program: str):
    pytest.importorskip("triton")
    # Another process: Triton reads the variable when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", f"tests.worker.{program}"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-1:] == ["equal"], done.stderr[-3000:]
