"""Two replicas in worker processes give what one engine in this process gives."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.errors import CheckpointError, ConfigError, RequestError, UnsupportedFeatureError, WorkerFailedError

OPTIONS = {"max_model_len": 96, "max_num_seqs": 3, "seed": 7, "max_num_batched_tokens": 24}
STOP_SECONDS = 5.0  # stated in doc/wide_ep.md


def mixed_requests():
    """Prompts and parameters of uneven lengths: greedy, sampled, seeded, several choices, log-probabilities."""
    prompts = [{"prompt_token_ids": [5 + (7 * i + j) % 200 for j in range(1 + 9 * i % 50)]} for i in range(12)]
    kinds = [
        {"temperature": 0.0},
        {"temperature": 1.0, "seed": 3, "logprobs": 2},
        {"temperature": 0.7},
        {"n": 3, "temperature": 1.0, "max_tokens": 6},
        {"temperature": 0.0, "prompt_logprobs": 1, "max_tokens": 1},
        {"temperature": 0.9, "bad_words": ["a"], "logit_bias": {7: 2.0}},
    ]
    params = [SamplingParams(**{"max_tokens": 3 + 5 * i % 30, **kinds[i % len(kinds)]}) for i in range(12)]
    return prompts, params


def values(outputs):
    """All of an output but what tells how it was scheduled."""
    schedule = {"metrics": None, "num_cached_tokens": None}
    drafts = {"num_draft_tokens": 0, "num_accepted_tokens": 0}
    shown = [output.to_dict() | schedule for output in outputs]
    return [output | {"outputs": [choice | drafts for choice in output["outputs"]]} for output in shown]


@pytest.fixture(scope="module")
def single(random_model):
    with LLM(random_model, **OPTIONS) as llm:
        yield llm


@pytest.fixture(scope="module")
def double(random_model):
    with LLM(random_model, data_parallel_size=2, **OPTIONS) as llm:
        yield llm


def test_outputs_are_those_of_one_engine(single, double):
    prompts, params = mixed_requests()
    expected = values(single.generate(prompts, params, use_tqdm=False))
    assert values(double.generate(prompts, params, use_tqdm=False)) == expected
    assert double.stats().num_requests == single.stats().num_requests == len(prompts)
    assert double.stats().num_generated_tokens == single.stats().num_generated_tokens


def test_scores_and_streams_are_those_of_one_engine(single, double):
    pairs = [[4, 5, 6], [7, 8]], [[9, 10], [11]]
    assert double.score(*pairs) == single.score(*pairs)
    params = SamplingParams(max_tokens=12, temperature=0.0)
    texts = []
    for llm in (single, double):
        ids = {}
        for delta in llm.stream([{"prompt_token_ids": [i, 9]} for i in range(3, 8)], params):
            ids.setdefault(delta.prompt_index, []).extend(delta.token_ids)
        texts.append(ids)
    assert texts[0] == texts[1] and len(texts[0]) == 5


def test_a_wrong_request_is_its_own_error(double):
    outputs = double.generate([[5, 6], [10**6], [7]], SamplingParams(max_tokens=2), use_tqdm=False)
    assert [output.error is None for output in outputs] == [True, False, True]
    local = SamplingParams(max_tokens=2, logits_processors=[lambda ids, row: row])
    (output,) = double.generate([[5, 6]], local, use_tqdm=False)
    assert output.error.code == "request_not_portable"
    for structured in (None, {"regex": "a+"}):
        with pytest.raises(RequestError, match="prompt 0: the request cannot go to a worker"):
            strict = SamplingParams(logits_processors=[lambda ids, row: row], structured_outputs=structured)
            double.generate([[5, 6]], strict, use_tqdm=False, strict=True)
    assert double.stats().num_running == 0  # the next question gets its own answer
    wrong = SamplingParams(structured_outputs={"regex": "("}, max_tokens=4)
    with pytest.raises(RequestError, match="prompt 0"):
        double.generate([[5, 6]], wrong, use_tqdm=False, strict=True)
    (output,) = double.generate([[5, 6]], wrong, use_tqdm=False)
    assert output.outputs[0].finish_reason == "error"


def test_a_function_that_workers_do_not_find_ends_its_own_request(double, monkeypatch):
    here = types.ModuleType("only_here")
    exec("def same(ids, row): return row", here.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", here)
    params = [SamplingParams(max_tokens=2, logits_processors=[here.same]), SamplingParams(max_tokens=2)]
    refused, other = double.generate([[5, 6], [7]], params, use_tqdm=False)
    assert refused.error.code == "request_not_portable" and "only_here" in refused.error.message
    assert other.error is None and double.stats().num_running == 0


def test_requests_can_be_aborted_and_left(double):
    stream = double.stream([[5, 6], [7]], SamplingParams(max_tokens=80, ignore_eos=True), request_ids=["a", "b"])
    next(stream)
    double.abort("b")
    assert {delta.finish_reason for delta in stream if delta.request_id == "b"} >= {"abort"}
    stream = double.stream([[5]] * 20, SamplingParams(max_tokens=80, ignore_eos=True))
    next(stream)
    stream.close()
    assert len(double.generate([[9]], SamplingParams(max_tokens=1), use_tqdm=False)) == 1


def test_an_interrupted_call_leaves_the_others_alone(double):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            double.generate([[5, 6]] * 30, params(80), use_tqdm=False)
    assert len(double.generate([[9]], params(2), use_tqdm=False)[0].outputs[0].token_ids) == 2
    end = time.monotonic() + STOP_SECONDS  # a replica that has done its part already ends the others at its next step
    while (stats := double.stats()).num_running or stats.num_waiting:
        assert time.monotonic() < end, stats
        time.sleep(0.01)


def test_a_fork_leaves_the_workers_alone(double):
    double.generate([[5, 6]], params(1), use_tqdm=False)  # nothing is under way at the fork
    child = os.fork()
    if not child:
        error = double.generate([[5, 6]], params(2), use_tqdm=False)[0].error
        double.close()
        os._exit(0 if error is not None and "is a fork" in error.message else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(double.generate([[9]], params(2), use_tqdm=False)[0].outputs[0].token_ids) == 2


def test_a_trace_has_every_rank(double):
    with double.trace() as trace:
        double.generate([[5, 6], [7]], params(3), use_tqdm=False)
        with pytest.raises(ConfigError, match="being traced already"), double.trace():
            pass
    for rank in (0, 1):
        names = {span.name for span in trace.of_rank(rank).spans}
        assert {"step", "schedule", "forward", "request"} <= names
    assert trace.modes["num_ranks"] == 2
    with double.trace() as later:
        pass
    assert not [span for span in later.spans if span.lane != "host"]


def test_a_trace_interrupted_at_its_beginning_ends(double, monkeypatch):
    """While ranks answer: those that have begun are told to end, so that the next one finds nobody tracing."""
    ask = double._runtime.loop.ask_ranks

    def interrupted(question):
        if question == "begin trace":
            ask(question)
            os.kill(os.getpid(), signal.SIGINT)
            return [None, None]
        return ask(question)

    with monkeypatch.context() as patch:
        patch.setattr(double._runtime.loop, "ask_ranks", interrupted)
        with pytest.raises(KeyboardInterrupt), double.trace():
            pass
    with double.trace() as trace:
        double.generate([[5, 6]], params(1), use_tqdm=False)
    assert trace.modes["num_ranks"] == 2


def test_what_needs_one_process_says_so(double):
    by_itself = "data_parallel_size=1 and context_parallel_size=1"
    with pytest.raises(UnsupportedFeatureError, match=by_itself), double.capture("layers.*"):
        pass
    with pytest.raises(UnsupportedFeatureError, match=by_itself):
        double.save_prefix("0", allow_replay=True)


def test_a_mistake_at_the_start_comes_as_it_is(tmp_path, random_model):
    for file in os.listdir(random_model):
        if not file.endswith(".safetensors"):
            (tmp_path / file).write_bytes((random_model / file).read_bytes())
    before = children()
    with pytest.raises(CheckpointError):
        LLM(tmp_path, data_parallel_size=2, **OPTIONS)
    assert children() == before


@pytest.mark.parametrize("idle", [False, True])
def test_a_killed_worker_ends_all(random_model, idle):
    """Also where the other one waits for it in a collective: the error names the one that was killed."""
    before, sockets_before = children(), sockets()
    sizes = {"data_parallel_size": 2, "expert_parallel_size": 2, "overlap": True}
    sizes = {"context_parallel_size": 2} if idle else sizes
    sizes["two_batch_overlap"] = "on"
    llm = LLM(random_model, **sizes, **OPTIONS)
    assert [len(output.outputs[0].token_ids) for output in llm.generate([[5, 6], [7]], params(3), use_tqdm=False)] == [
        3,
        3,
    ]
    victim, other = sorted(set(children()) - set(before))
    if not idle:
        threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    else:
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        while is_alive(other):
            assert time.monotonic() < begin + STOP_SECONDS
            time.sleep(0.02)
    with pytest.raises(WorkerFailedError, match=r"worker rank 0 failed.* signal 9 \(SIGKILL\)"):
        while True:
            llm.generate([[5, 6]] * 8, params(60), use_tqdm=False)
    assert children() == before
    with pytest.raises(WorkerFailedError):
        llm.generate([[5, 6]], use_tqdm=False)
    llm.close()
    assert sockets() == sockets_before


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_worker_killed_at_a_random_moment_is_named(random_model, seed):
    """Also while it loads, and while others wait for it in any collective."""
    rng, before = random.Random(seed), children()
    victim, delay = rng.randrange(4), rng.uniform(0.0, 8.0)
    killed = []

    def kill():
        pids = sorted(set(children()) - set(before))
        if len(pids) == 4:
            killed.append(time.monotonic())
            os.kill(pids[victim], signal.SIGKILL)

    timer = threading.Timer(2.0 + delay, kill)
    timer.start()
    sizes = {"data_parallel_size": 2, "context_parallel_size": 2, "expert_parallel_size": 4, "engram_parallel_size": 2}
    sizes["two_batch_overlap"] = "on"
    with pytest.raises(WorkerFailedError) as caught:
        llm = LLM(random_model, **sizes, **OPTIONS)
        while True:
            llm.generate([[5, 6, 7]] * 9, params(30), use_tqdm=False)
    assert killed and time.monotonic() - killed[0] < STOP_SECONDS
    assert caught.value.rank == victim and "SIGKILL" in str(caught.value)
    assert children() == before


def test_workers_do_not_outlive_their_front_end(random_model):
    script = (
        "import os, sys, time; from deepinfer import LLM\n"
        f"llm = LLM({str(random_model)!r}, data_parallel_size=2, max_model_len=64)\n"
        "print(*[w._process.pid for w in llm._runtime.loop._links.pool.workers], flush=True)\n"
        "child = os.fork()  # keeps the front end's ends of the pipes open\n"
        "if not child: time.sleep(20); os._exit(0)\n"
        "print(child, flush=True)\n"
        "llm.generate([[5, 6]] * 50, {'max_tokens': 60, 'ignore_eos': True}, use_tqdm=False); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as front:
        pids = [int(pid) for pid in front.stdout.readline().split()]
        assert len(pids) == 2 and all(map(is_alive, pids))
        forked = int(front.stdout.readline())
        front.kill()
    end = time.monotonic() + STOP_SECONDS
    while any(map(is_alive, pids)):
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(forked, signal.SIGKILL)


@pytest.mark.slow
def test_a_script_may_end_with_a_call_open(random_model):
    script = (
        "from deepinfer import LLM\n"
        f"llm = LLM({str(random_model)!r}, data_parallel_size=2, expert_parallel_size=2, max_model_len=64)\n"
        "deltas = llm.stream([[5, 6]] * 4, {'max_tokens': 50, 'ignore_eos': True}); next(deltas)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "Exception" not in done.stderr, done.stderr


def params(num_tokens):
    return SamplingParams(max_tokens=num_tokens, ignore_eos=True)


def children():
    """Worker processes of this one that are alive, by number."""
    found = []
    for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        with contextlib.suppress(OSError):
            command, status = (Path(f"/proc/{pid}/{name}").read_text() for name in ("cmdline", "status"))
            if "deepinfer.worker" in command and f"PPid:\t{os.getpid()}\n" in status:
                found.append(int(pid))
    return [pid for pid in found if is_alive(pid)]


def sockets():
    """Open sockets of this process."""
    found = set()
    for file in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            found.add(os.readlink(f"/proc/self/fd/{file}"))
    return {name for name in found if name.startswith("socket:")}


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False
