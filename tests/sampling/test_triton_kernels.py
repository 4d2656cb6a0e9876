"""The arithmetic of the Triton sampling kernels, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_interpreted_kernels_equal_the_torch_sampler():
    pytest.importorskip("triton")
    # Another process: Triton reads the variable when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", "tests.sampling.interpreted_kernels"],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[-1:] == ["equal"], done.stderr[-3000:]
