"""Process life: nothing survives close(); plain scripts, forks and daemon processes work."""

import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from deepinfer import LLM, SamplingParams
from tests.support.golden_case import GOLDEN

MODEL = GOLDEN / "nano-s1"
ROOT = Path(__file__).parent.parent
SCRIPT = f"""
from deepinfer import LLM, SamplingParams
llm = LLM({str(MODEL)!r}, numerics="fp32")
outputs = llm.generate([[5], [6]], SamplingParams(temperature=0, max_tokens=3, ignore_eos=True), use_tqdm=False)
print([len(output.outputs[0].token_ids) for output in outputs])
"""
FORK = """
import os, sys
import deepinfer
pid = os.fork()
if pid == 0:
    {body}
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
DAEMON = """
import multiprocessing, pathlib
code = pathlib.Path(__file__).with_name("plain.py").read_text()
if __name__ == "__main__":
    process = multiprocessing.get_context("fork").Process(target=exec, args=(code, {}), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == 0
"""


def run_python(*arguments: str, stdin: str | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], input=stdin, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_plain_scripts_and_forks(tmp_path: Path) -> None:
    plain, daemon = tmp_path / "plain.py", tmp_path / "daemon.py"
    plain.write_text(SCRIPT)
    daemon.write_text(DAEMON)
    fork = FORK.format(body=SCRIPT.strip().replace("\n", "\n    "))
    for output in (run_python(str(plain)), run_python("-", stdin=SCRIPT), run_python("-c", fork)):
        assert output == "[3, 3]\n"
    assert run_python(str(daemon)) == "[3, 3]\n"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_twenty_engines_leave_nothing() -> None:
    models: list[weakref.ref] = []
    after_second = (0, 0, 0)
    for turn in range(20):
        llm = LLM(MODEL, numerics="fp32", max_num_seqs=8, seed=turn)
        llm.generate([[5]], SamplingParams(temperature=0, max_tokens=2), use_tqdm=False)
        models.append(weakref.ref(llm._runtime.worker._runner._model))
        llm.close()
        gc.collect()
        assert models[-1]() is None  # given back by close(), although the LLM itself still lives
        if turn == 1:
            after_second = (open_files(), threading.active_count(), resident_bytes())
    files, threads, memory = after_second
    assert open_files() <= files and threading.active_count() <= threads
    assert resident_bytes() - memory < 20 * 2**20
