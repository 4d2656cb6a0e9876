"""Overlapped engines in use: what is in flight between two calls, faults, hooks, threads, and the end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from deepinfer import LLM, EngineClosedError, SamplingParams
from deepinfer.core.step_plan import StepPlan
from deepinfer.core.step_result import StepResult
from deepinfer.worker.model_runner import ModelRunner
from tests.overlap.delays import Delays
from tests.overlap.pair import assert_idle, prompts_of
from tests.support.golden_case import GOLDEN

PROMPTS = prompts_of(4, 500, 12)
PARAMS = SamplingParams(temperature=0.9, seed=3, max_tokens=16, ignore_eos=True)
OPTIONS: dict[str, Any] = {"max_model_len": 64, "block_size": 4, "max_num_seqs": 4, "speculative": {"varlen": False}}


def new_engine(**options: Any) -> LLM:
    return LLM(GOLDEN / "nano-s1", overlap=True, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    with LLM(GOLDEN / "nano-s1", overlap=False, **OPTIONS) as llm:
        return tokens_of(llm)


@pytest.fixture(scope="module")
def llm(delays: Delays) -> Iterator[LLM]:
    with new_engine() as llm:
        yield llm


@pytest.fixture(autouse=True)
def is_idle(llm: LLM, delays: Delays) -> Iterator[None]:
    yield
    delays.device = delays.host = 0.0
    assert_idle(llm)


def tokens_of(llm: LLM, params: SamplingParams = PARAMS) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in llm.generate(PROMPTS, params, use_tqdm=False)]


def test_one_step_is_in_flight_while_the_caller_has_the_turn(llm: LLM, expected: list[list[int]]) -> None:
    engine, tokens, in_flight = llm._runtime.engine, [], []
    for delta in llm.stream(PROMPTS[:1], PARAMS):
        tokens += delta.token_ids
        in_flight.append(len(engine._scheduler.steps_in_flight))
    assert tokens == expected[0]
    assert in_flight[0] == in_flight[-1] == 0  # a prefill is waited for; nobody is left at the end
    assert set(in_flight[1:-1]) == {1}


def test_plans_are_linked_and_settled_alike(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's own exact plan equals the one that sampling gets, array for array."""
    linked, resolved = [], {}
    exact, sample = ModelRunner._exact, ModelRunner.sample

    def noted(runner: ModelRunner, plan: StepPlan) -> StepPlan:
        linked.append(plan.previous_step_id >= 0)
        resolved[plan.step_id] = exact(runner, plan)
        return resolved[plan.step_id]

    def compared(runner: ModelRunner, plan: Any, natively: bool = False) -> Any:
        mine = resolved[plan.step_id]
        for name in ("seq_ids", "cu_seqlens_q", "context_lens", "token_ids", "positions", "num_drafts", "state_slots"):
            assert (getattr(mine, name) == getattr(plan, name)).all(), name
        assert mine.previous_step_id == plan.previous_step_id == -1
        return sample(runner, plan, natively)

    monkeypatch.setattr(ModelRunner, "_exact", noted)
    monkeypatch.setattr(ModelRunner, "sample", compared)
    tokens_of(llm)
    assert sum(linked) >= len(linked) - 3


def test_the_callers_thread_runs_what_needs_torch(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, set[bool]] = {"forward": set(), "native": set(), "torch": set()}
    forward, sample = ModelRunner.forward, ModelRunner.sample
    main = threading.current_thread()

    def forwards(runner: ModelRunner, plan: StepPlan) -> None:
        threads["forward"].add(threading.current_thread() is main)
        forward(runner, plan)

    def samples(runner: ModelRunner, plan: StepPlan, natively: bool = False) -> Any:
        threads["native" if natively else "torch"].add(threading.current_thread() is main)
        return sample(runner, plan, natively)

    monkeypatch.setattr(ModelRunner, "forward", forwards)
    monkeypatch.setattr(ModelRunner, "sample", samples)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        for _ in llm.stream(PROMPTS[:2], [PARAMS, PARAMS.replace(logprobs=1)]):
            assert torch.get_default_dtype() is torch.float64  # whatever runs meanwhile
        tokens_of(llm)
    finally:
        torch.set_default_dtype(before)
    assert threads == {"forward": {False}, "native": {False}, "torch": {True}}


@pytest.mark.parametrize("phase", ["forward", "_sample_natively"])
@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_step_that_fails_on_the_device_is_repeated(
    llm: LLM, expected: list[list[int]], phase: str, at: int, delays: Delays, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays.host = 1e-3  # the device is a step ahead when the host learns of it
    plain = getattr(ModelRunner, phase)
    calls: list[int] = []

    def fails(runner: ModelRunner, plan: StepPlan, *rest: Any) -> Any:
        if plan.kind == "decode":
            calls.append(plan.step_id)
            if len(calls) == at:
                raise OSError("of the device")
        return plain(runner, plan, *rest)

    monkeypatch.setattr(ModelRunner, phase, fails)
    streams = [llm.stream([prompt], PARAMS) for prompt in PROMPTS]
    texts = [list(next(stream).token_ids) for stream in streams]
    with pytest.raises(OSError, match="of the device"):
        for _ in range(30):
            llm._runtime.engine.step()
    for text, stream in zip(texts, streams, strict=True):
        text += [token for delta in stream for token in delta.token_ids]
    assert texts == expected and len(calls) > at


def test_a_failed_forward_pass_is_what_sampling_on_the_host_reports(
    llm: LLM, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that there is nothing to sample from."""
    forward, calls, texts = ModelRunner.forward, [], [[] for _ in PROMPTS]

    def fails(runner: ModelRunner, plan: StepPlan) -> None:
        calls.append(plan.step_id)
        if len(calls) == 5:
            raise OSError("of the device")
        forward(runner, plan)

    stream = llm.stream(PROMPTS, PARAMS.replace(logprobs=1))
    monkeypatch.setattr(ModelRunner, "forward", fails)
    failures = 0
    while True:
        try:
            delta = next(stream)
        except StopIteration:
            break
        except OSError:
            failures += 1
            stream = llm.stream(PROMPTS, PARAMS.replace(logprobs=1))
            texts = [[] for _ in PROMPTS]
            continue
        texts[delta.prompt_index] += delta.token_ids
    assert failures == 1 and texts == expected


@pytest.mark.parametrize("behind", [False, True])
def test_a_step_that_fails_on_the_callers_thread_is_repeated(
    llm: LLM, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before sampling, and behind it, so that it meets the same history again."""
    params = PARAMS.replace(repetition_penalty=1.2, logprobs=2)
    wanted, plain, calls = tokens_of(llm, params), ModelRunner._choose, []

    def choose(runner: ModelRunner, plan: StepPlan, *rest: Any) -> StepResult:
        calls.append(plan.step_id)
        if len(calls) not in (3, 6, 7):
            return plain(runner, plan, *rest)
        if behind:
            plain(runner, plan, *rest)
        raise OSError("of the host")

    monkeypatch.setattr(ModelRunner, "_choose", choose)
    stream, faults = llm.stream(PROMPTS, params), 0
    first = next(stream)
    while llm._runtime.engine.has_unfinished_requests():
        try:
            llm._runtime.engine.step()
        except OSError:
            faults += 1
    texts: list[list[int]] = [[] for _ in PROMPTS]
    for delta in (first, *stream):
        texts[delta.prompt_index] += delta.token_ids
    assert texts == wanted and faults == 3


def test_a_refused_row_ends_alone_while_the_next_step_runs(llm: LLM) -> None:
    """The row stays in the next step as a ghost."""
    params = [PARAMS, PARAMS.replace(logits_processors=[fails_at(5)]), PARAMS, PARAMS]
    outputs = llm.generate(PROMPTS, params, use_tqdm=False)
    assert [output.error is None for output in outputs] == [True, False, True, True]
    assert len(outputs[1].outputs[0].token_ids) == 5


def fails_at(length: int) -> Any:
    def processor(generated: list[int], row: torch.Tensor) -> torch.Tensor:
        if len(generated) == length:
            raise ValueError("mine")
        return row

    return processor


@pytest.mark.parametrize("how", ["capture", "replace", "trace"])
def test_hooks_come_and_go_while_a_step_is_in_flight(
    llm: LLM, expected: list[list[int]], delays: Delays, how: str
) -> None:
    """The step that the device is computing then is of other rows than the newest plan: it must not be recorded."""
    delays.device = 0.002
    hooks: dict[str, Any] = {
        "capture": lambda: llm.capture("*"),
        "replace": lambda: llm.replace("layers.3.ffn", lambda original, *args: original(*args)),
        "trace": llm.trace,
    }
    tokens: list[list[int]] = [[] for _ in PROMPTS]
    stream, seen = llm.stream(PROMPTS, PARAMS), 0
    while True:
        with hooks[how]() if seen % 5 in (2, 3) else contextlib.nullcontext():
            delta = next(stream, None)
        if delta is None:
            break
        assert delta.error is None
        tokens[delta.prompt_index] += delta.token_ids
        seen += 1
    assert tokens == expected


def test_a_hook_may_outlive_its_engine() -> None:
    with new_engine() as llm, llm.capture("logits") as tap, llm.trace() as trace:
        tokens_of(llm)
        llm.close()
    assert tap.names() == ["logits"] and trace.spans


def test_hooks_see_whole_steps_one_by_one(llm: LLM, expected: list[list[int]]) -> None:
    """Attached while a step is in flight, and detached again; recorded rows are those of the synchronous engine."""
    engine = llm._runtime.engine
    stream = llm.stream([PROMPTS[0]], PARAMS, request_ids=["a"])
    tokens = [token for _ in range(3) for token in next(stream).token_ids]
    assert len(engine._scheduler.steps_in_flight) == 1
    with llm.capture("logits", "layers.3.streams") as tap:
        for _ in range(3):
            tokens += next(stream).token_ids
            assert not engine._scheduler.steps_in_flight
    tokens += [token for delta in stream for token in delta.token_ids]
    assert tokens == expected[0]
    positions = tap.positions("layers.3.streams", "a")
    assert (positions[1:] == positions[:-1] + 1).all() and len(positions) >= 3
    text = [*PROMPTS[0], *tokens]
    with LLM(GOLDEN / "nano-s1", overlap=False, **OPTIONS) as sync, sync.capture("layers.3.streams") as whole:
        sync.generate([text], PARAMS.replace(max_tokens=1), request_ids=["b"], use_tqdm=False)
    rows = torch.from_numpy(positions)
    assert torch.equal(tap.tensor("layers.3.streams", "a"), whole.tensor("layers.3.streams", "b")[rows])


def test_many_threads_share_an_engine(llm: LLM, expected: list[list[int]], delays: Delays) -> None:
    delays.device = delays.host = 2e-4
    found: dict[int, list[int]] = {}

    def call(number: int) -> None:
        stream = llm.stream([PROMPTS[number % 4]], PARAMS)
        found[number] = [token for delta in stream for token in delta.token_ids]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: expected[number % 4] for number in range(8)}


def test_a_forgotten_stream_gives_everything_back(llm: LLM) -> None:
    stream = llm.stream(PROMPTS, PARAMS.replace(max_tokens=40))
    for _ in range(9):
        next(stream)
    del stream
    gc.collect()


def test_ctrl_c_in_the_middle_leaves_the_engine_usable(llm: LLM, expected: list[list[int]], delays: Delays) -> None:
    """Two of them break the wait for a slow device; what it still does meanwhile harms nobody."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for number in range(4):
            delays.device = 5e-2
            first = llm.stats().num_decode_steps

            def interrupt(first: int = first, number: int = number) -> None:
                while llm.stats().num_decode_steps < first + 2:
                    time.sleep(1e-3)
                for _ in range(1 + number % 2):
                    os.kill(os.getpid(), signal.SIGINT)
                    time.sleep(1e-2)

            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                try:
                    tokens_of(llm)
                finally:
                    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the second may come late
            thread.join()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            delays.device = 0.0
            assert tokens_of(llm) == expected
    finally:
        signal.signal(signal.SIGINT, before)


def test_closing_with_a_step_in_flight(delays: Delays) -> None:
    delays.device = 2e-2
    llm = new_engine()
    model = weakref.ref(llm._runtime.worker.model)
    stream = llm.stream(PROMPTS, PARAMS)
    for _ in range(6):
        next(stream)
    engine = llm._runtime.engine
    assert engine._scheduler.steps_in_flight
    llm.close()
    with pytest.raises(EngineClosedError):
        llm.generate(PROMPTS, PARAMS, use_tqdm=False)
    stream.close()
    del stream, engine
    gc.collect()
    assert model() is None


def test_a_forgotten_engine_with_a_step_in_flight_goes() -> None:
    llm = new_engine()
    stream = llm.stream(PROMPTS, PARAMS)
    for _ in range(6):
        next(stream)
    runtime = weakref.ref(llm._runtime.worker)
    thread = llm._runtime.worker._stream._thread  # type: ignore[attr-defined]
    assert thread is not None and thread.is_alive()
    del llm, stream
    gc.collect()
    assert runtime() is None and not thread.is_alive()
