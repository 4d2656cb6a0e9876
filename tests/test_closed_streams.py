"""Standard error or output that is closed, or closes in the middle, fails nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_case import GOLDEN

ROOT = Path(__file__).parent.parent
CALL = f"""
import os, sys
from deepinfer import LLM, SamplingParams
{{before}}
llm = LLM({str(GOLDEN / "nano-s1")!r}, numerics="fp32", max_num_seqs=2, max_model_len=32)
{{between}}
outputs = llm.generate([[5], [6], []], SamplingParams(max_tokens=2, ignore_eos=True))
os._exit(7 if [output.error is None for output in outputs] == [True, True, False] else 1)
"""


@pytest.mark.parametrize(
    ("redirect", "before", "between"),
    [
        ("<&- >&- 2>&-", "", ""),
        ("", "sys.stderr.close()", ""),
        ("", "", "os.close(2)"),
    ],
)
def test_a_closed_stream_fails_nothing(redirect: str, before: str, between: str) -> None:
    code = CALL.format(before=before, between=between)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = ["sh", "-c", f'exec "$0" -c "$1" {redirect}', sys.executable, code]
    assert subprocess.run(command, env=environment, timeout=60, capture_output=True).returncode == 7


def test_a_reader_that_goes_away_fails_nothing() -> None:
    """The other end of standard error is closed: every write to it is a broken pipe."""
    code = CALL.format(before="", between="")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, stderr=write_end)
    os.close(write_end)
    assert done.returncode == 7
