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

SPAWN = """
import multiprocessing, pathlib
def work():
    exec(pathlib.Path(__file__).with_name("plain.py").read_text(), {})
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == 0
"""
FORK_AFTER_USE = """
import os, sys
work = {script!r}
exec(work, {{}})
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    exec(work, {{}})
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
INTERRUPT = f"""
import os, signal, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored from the start under nohup
from deepinfer import LLM, SamplingParams
llm = LLM({str(MODEL)!r}, numerics="fp32", max_num_seqs=4)
params = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)
def kill(first):
    while llm.stats().num_steps < first + 4:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
for call in (lambda: llm.generate([[5]] * 6, params, use_tqdm=False), lambda: list(llm.stream([[5]], params))):
    threading.Thread(target=kill, args=(llm.stats().num_steps,)).start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
    stats = llm.stats()
    assert stats.num_running == stats.num_waiting == 0 and stats.num_free_blocks == stats.num_blocks
    assert stats.num_free_state_slots == stats.num_state_slots
(output,) = llm.generate([[5]], params.replace(max_tokens=3), use_tqdm=False)
print(len(output.outputs[0].token_ids), output.error)
"""


def run_python(*arguments: str, stdin: str | None = None) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], input=stdin, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_case_30_plain_scripts_and_forks(tmp_path: Path) -> None:
    plain, daemon = tmp_path / "plain.py", tmp_path / "daemon.py"
    plain.write_text(SCRIPT)
    daemon.write_text(DAEMON)
    fork = FORK.format(body=SCRIPT.strip().replace("\n", "\n    "))
    for output in (run_python(str(plain)), run_python("-", stdin=SCRIPT), run_python("-c", fork)):
        assert output == "[3, 3]\n"
    assert run_python(str(daemon)) == "[3, 3]\n"


def test_case_30_spawned_processes_and_forks_of_a_used_engine(tmp_path: Path) -> None:
    plain, spawn = tmp_path / "plain.py", tmp_path / "spawn.py"
    plain.write_text(SCRIPT)
    spawn.write_text(SPAWN)
    assert run_python(str(spawn)) == "[3, 3]\n"
    assert run_python("-c", FORK_AFTER_USE.format(script=SCRIPT)) == "[3, 3]\n" * 2


def test_ctrl_c_in_a_running_call_leaves_the_engine_usable() -> None:
    assert run_python("-c", INTERRUPT) == "interrupted\ninterrupted\n3 None\n"


def test_two_engines_do_not_know_of_each_other() -> None:
    params = SamplingParams(temperature=1.0, max_tokens=8, ignore_eos=True, seed=3)

    def tokens(outputs: list) -> list[list[int]]:
        return [output.outputs[0].token_ids for output in outputs]

    with LLM(MODEL, numerics="fp32") as first, LLM(MODEL, numerics="fp32-quant", seed=9) as second:
        alone = tokens(first.generate([[5], [6]], params, use_tqdm=False))
        open_stream = second.stream([[7]], params)
        streamed = list(next(open_stream).token_ids)
        assert tokens(first.generate([[5], [6]], params, use_tqdm=False)) == alone
        streamed += [number for delta in open_stream for number in delta.token_ids]
        assert streamed == tokens(second.generate([[7]], params, use_tqdm=False))[0]
        second.close()
        assert tokens(first.generate([[5], [6]], params, use_tqdm=False)) == alone


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_case_29_twenty_engines_leave_nothing() -> None:
    models: list[weakref.ref] = []
    after_second = (0, 0, 0)
    for turn in range(20):
        llm = LLM(MODEL, numerics="fp32", max_num_seqs=8, seed=turn)
        llm.generate([[5]], SamplingParams(temperature=0, max_tokens=2), use_tqdm=False)
        models.append(weakref.ref(llm._runtime.worker.model))
        llm.close()
        gc.collect()
        assert models[-1]() is None  # given back by close(), although the LLM itself still lives
        if turn == 1:
            after_second = (open_files(), threading.active_count(), resident_bytes())
    files, threads, memory = after_second
    assert open_files() <= files and threading.active_count() <= threads
    assert resident_bytes() - memory < 20 * 2**20
