"""Cases 29, 30, 41 and 43: what an engine leaves behind, scripts, environment, progress; and long use of one engine."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from deepinfer import LLM, ConfigError, EngineClosedError, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.engine.engine_options import engine_config
from deepinfer.envs import VARIABLES, read_environment
from tests.support.table_model import perm_table, perm_tokens
from tests.support.tiny_config import tiny_config

ROOT = Path(__file__).parents[2]
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held():
    """Open files, threads, children and shared memory of this process."""
    tasks = Path("/proc/self/task")
    children = [item for task in tasks.iterdir() for item in (task / "children").read_text().split()]
    shm = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(children), len(shm)


@linux
def test_case_29_nothing_survives_close_or_a_forgotten_engine(table_models, run):
    path, options = table_models.path(perm_table()), {"numerics": "fp32", "max_model_len": 64}
    before = None
    for turn in range(8):
        llm = LLM(path, **options)
        run(llm, [[10]], max_tokens=2)
        model = weakref.ref(llm._runtime.worker.model)
        stream = llm.stream([[10]], SamplingParams(max_tokens=50)) if turn % 3 == 1 else None
        if stream is not None:
            next(stream)
        if turn % 2:
            llm.close()
            llm.close()
            with pytest.raises(EngineClosedError, match="closed"):
                llm.generate([[10]])
        del llm, stream
        gc.collect()
        assert model() is None, turn
        if turn == 1:
            before, memory = held(), resident_bytes()
    assert all(now <= then for now, then in zip(held()[:3], before, strict=False))
    assert resident_bytes() - memory < 20 * 2**20


def test_case_29_a_context_manager_closes_also_after_an_error(table_models):
    path = table_models.path(perm_table())
    with pytest.raises(ZeroDivisionError), LLM(path, numerics="fp32", max_model_len=64) as llm:
        1 / 0  # noqa: B018
    with pytest.raises(EngineClosedError):
        llm.stats()


def test_case_29_two_engines_live_side_by_side(table_models, run):
    path, options = table_models.path(perm_table()), {"numerics": "fp32", "max_model_len": 64}
    first, second = LLM(path, **options), LLM(path, seed=5, **options)
    stream = first.stream([[10]], SamplingParams(temperature=0, max_tokens=5))
    tokens = list(next(stream).token_ids)
    assert run(second, [[11]], max_tokens=4)[0].outputs[0].token_ids == perm_tokens(11, 4)
    second.close()
    tokens += [token for delta in stream for token in delta.token_ids]
    assert tokens == perm_tokens(10, 5)
    first.close()


GENERATE = """
from deepinfer import LLM, SamplingParams
llm = LLM({path!r}, numerics="fp32", max_model_len=64)
outputs = llm.generate([[10]], SamplingParams(temperature=0, max_tokens=3), use_tqdm=False)
print(outputs[0].outputs[0].token_ids, flush=True)
"""


@linux
def test_case_29_a_killed_parent_leaves_no_child(table_models):
    code = GENERATE.format(path=str(table_models.path(perm_table())))
    code += (
        "import os, glob, time\n"
        "print([c for f in glob.glob('/proc/self/task/*/children') for c in open(f).read().split()], flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert json.loads(process.stdout.readline()) == perm_tokens(10, 3)
        children = [int(child) for child in re.findall(r"\d+", process.stdout.readline())]
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        deadline = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{child}") for child in children):
            assert time.monotonic() < deadline, children
            time.sleep(0.1)
    finally:
        process.kill()
        process.stdout.close()


def test_case_30_a_one_line_command_needs_no_guard(table_models):
    code = GENERATE.format(path=str(table_models.path(perm_table())))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{perm_tokens(10, 3)}\n"


BOOLEANS = [row.name for row in VARIABLES if row.parse.__name__ == "parse_bool"]


@pytest.mark.parametrize("name", BOOLEANS)
def test_case_41_booleans_mean_what_they_say(name):
    (row,) = [row for row in VARIABLES if row.name == name]
    for text, value in {
        "1": True,
        "0": False,
        "true": True,
        "False": False,
        "YES": True,
        "off": False,
        " 1 ": True,
    }.items():
        assert row.parse(text) is value
    assert read_environment({name: ""}).findings == () == read_environment({}).findings
    for text in ("2", "enabled", "-", "truee", "1.0"):
        with pytest.raises(ConfigError, match=f"{name}.*expected one of"):
            read_environment({name: text}).raise_errors()


def test_case_41_integers_and_names():
    name = "DEEPINFER_PREFILL_ATTEMPT_INTERVAL"
    assert [read_environment({name: text}).findings[0].value for text in ("4", " 4 ")] == [4, 4]
    for text in ("4.0", "four", "-1", "1e3", "0x4"):
        with pytest.raises(ConfigError, match=name):
            read_environment({name: text}).raise_errors()
    (warning,) = read_environment({"DEEPINFER_ENFORCE_EAGRE": "1"}).warnings
    assert "did you mean DEEPINFER_ENFORCE_EAGER" in warning
    set_on = read_environment({"DEEPINFER_ENFORCE_EAGER": "1"})
    assert engine_config({"enforce_eager": None}, {}, set_on).enforce_eager is True
    assert engine_config({"enforce_eager": False}, {}, set_on).enforce_eager is False


def bars(text):
    return [line for line in text.replace("\n", "\r").split("\r") if line.strip()]


@pytest.mark.parametrize("num_choices", [1, 10])
def test_case_43_the_bar_ends_at_its_total(table_llm, capsys, num_choices):
    llm = table_llm(perm_table(), max_num_seqs=40)
    params = SamplingParams(n=num_choices, temperature=1, max_tokens=2, seed=1)
    for _ in range(2):
        outputs = llm.generate([[10], [11], [999], [12]], params)
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = bars(captured.err)
        assert "100%" in lines[-1] and "4/4" in lines[-1] and "prompt" in lines[-1]
        assert len(lines) <= 2  # no terminal: one line per interval
    assert [output.error is None for output in outputs] == [True, True, False, True]
    assert [len(output.outputs) for output in outputs if output.error is None] == [num_choices] * 3


def test_case_43_off_means_silent(table_llm, capsys):
    llm = table_llm(perm_table(), max_num_seqs=40)
    params = SamplingParams(temperature=0, max_tokens=2)
    llm.generate([[10], [999]], params, use_tqdm=False)
    list(llm.generate_iter([[10], [999]], params))
    list(llm.stream([[10], [999]], params))
    llm.score([[10]], [[11]])
    llm.generate([])
    assert capsys.readouterr() == ("", "")


def use(llm, count):
    """Calls of every kind, failing ones among them; returns the growth of the resident memory in bytes."""
    params = [
        SamplingParams(temperature=0, max_tokens=1, logprobs=2),
        SamplingParams(max_tokens=1, prompt_logprobs=3, stop="x"),
        SamplingParams(max_tokens=1, n=2, repetition_penalty=1.2, bad_words=["dog"]),
        SamplingParams(max_tokens=1, allowed_token_ids=[1], min_tokens=1),
        SamplingParams(max_tokens=1),
    ]
    for turn in range(count):
        llm.generate([[10, turn % 256], [11], [12], [13], [999]], params, use_tqdm=False)
        if turn % 10 == 0:
            stream = llm.stream([[10], [20]], SamplingParams(max_tokens=20))
            next(stream)
            del stream
    gc.collect()
    return resident_bytes()


@linux
@pytest.mark.parametrize("calls", [200, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_memory_is_stable_over_many_calls(tmp_path, calls):
    layers = {"num_hidden_layers": 2, "compress_ratios": [0, 1], "kv_source_layer_ids": [1], "engram_layer_ids": [0]}
    sources = {"index_source_layer_ids": [1], "candidate_source_layer_id": 1}
    drafts = {"num_nextn_predict_layers": 0, "dspark_target_layer_ids": []}
    write_random_checkpoint(tiny_config(**layers, **sources, **drafts), tmp_path)
    with LLM(tmp_path, numerics="fp32", max_model_len=32, block_size=8) as llm:
        start = use(llm, calls // 4)
        growth = use(llm, calls - calls // 4) - start
        stats = llm.stats()
        assert stats.num_free_blocks == stats.num_blocks and stats.num_running == stats.num_waiting == 0
        assert stats.num_failed == 2 * calls
    assert growth < 8 * 2**20, f"{growth / calls:.0f} bytes a call"
