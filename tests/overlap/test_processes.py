"""Processes around an overlapped engine: forks in the middle of a text, Ctrl-C, the end with a step in flight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_case import GOLDEN
from tests.test_llm_process import FORK_AFTER_USE, INTERRUPT, SCRIPT

ROOT = Path(__file__).parents[2]
BEGIN = f"""
import os, sys
from deepinfer import LLM, SamplingParams
llm = LLM({str(GOLDEN / "nano-s1")!r}, max_num_seqs=4, max_model_len=128, speculative={{"varlen": False}})
assert type(llm._runtime.engine).__name__ == "OverlappedEngine"
params = SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
(output,) = llm.generate([[50, 60]], params, use_tqdm=False)
stream = llm.stream([[50, 60]], params)
tokens = [token for _ in range(5) for token in next(stream).token_ids]
assert llm._runtime.engine._scheduler.steps_in_flight
"""
FORK = """
pid = os.fork()
tokens += [token for delta in stream for token in delta.token_ids]
print(tokens == output.outputs[0].token_ids, llm.generate([[50, 60]], params, use_tqdm=False)[0].error)
sys.stdout.flush()
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


def run_python(script: str) -> str:
    overlapped = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "DEEPINFER_ZERO_OVERHEAD_SCHEDULING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, **overlapped}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("script", "output"),
    [
        (BEGIN + FORK, "True None\n" * 2),
        (BEGIN, ""),
        (BEGIN + "llm.close()", ""),
        (FORK_AFTER_USE.format(script=SCRIPT), "[3, 3]\n" * 2),
        (INTERRUPT, "interrupted\ninterrupted\n3 None\n"),
    ],
    ids=["fork", "end", "close", "fork-idle", "interrupt"],
)
def test_process(script: str, output: str) -> None:
    assert run_python(script) == output
