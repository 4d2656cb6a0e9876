"""Requests that come, go and are aborted at any time, on slow devices and slow hosts: every text is as if alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deepinfer import LLM, RequestDelta
from tests.overlap.delays import Delays
from tests.overlap.pair import KINDS, assert_idle, params_of, prompts_of
from tests.support.golden_case import GOLDEN

PROMPTS = prompts_of(6, 500, 30, seed=5)
CURVE = {"step": [[1, 1.0], [4, 1.1], [8, 1.6], [16, 3.0], [64, 12.0]], "draft": [[4, 0.3], [16, 0.9]]}
OPTIONS: dict[str, Any] = {"max_model_len": 64, "block_size": 4, "max_num_batched_tokens": 24, "max_prefill_chunk": 9}
SMALL: dict[str, Any] = {**OPTIONS, "max_num_seqs": 5, "kv_cache_bytes": 50_000, "numerics": "fp32"}
STREAMED = [kind for kind, params in enumerate(KINDS) if "prompt_logprobs" not in params]
LENGTHS = (3, 9, 20)
NUMBERS = count()
Texts = dict[int, tuple[list[int], str]]  # tokens and reason by choice


@dataclass
class Open:
    """A request whose stream is open."""

    prompt: int
    kind: int
    max_tokens: int
    request_id: str
    stream: Iterator[RequestDelta]
    texts: Texts = field(default_factory=dict)
    aborted: bool = False

    def take(self) -> bool:
        """One delta; False at the end."""
        delta = next(self.stream, None)
        if delta is None:
            return False
        tokens, _ = self.texts.get(delta.choice, ([], ""))
        self.texts[delta.choice] = ([*tokens, *delta.token_ids], delta.finish_reason or "")
        return True


@pytest.fixture(scope="module", params=["off", "all", "varlen"])
def engines(request: pytest.FixtureRequest, delays: Delays) -> Iterator[tuple[LLM, LLM]]:
    """The judge, which runs each request alone, and the overlapped engine, whose cache is small."""
    kinds = {"off": "off", "all": {"varlen": False}, "varlen": {"cost_curve": CURVE}}
    speculative = kinds[request.param]
    with (
        LLM(GOLDEN / "nano-s1", overlap=False, numerics="fp32", speculative="off", **OPTIONS) as judge,
        LLM(GOLDEN / "nano-s1", overlap=True, speculative=speculative, **SMALL) as overlapped,
    ):
        yield judge, overlapped
        stats = overlapped.stats()
        assert stats.num_preemptions > 0 and stats.num_aborted > 0


@cache
def alone(judge: LLM, prompt: int, kind: int, max_tokens: int) -> Texts:
    (output,) = judge.generate([PROMPTS[prompt]], params_of(kind, max_tokens), use_tqdm=False)
    return {choice.index: (list(choice.token_ids), str(choice.finish_reason)) for choice in output.outputs}


def assert_as_alone(judge: LLM, one: Open) -> None:
    expected = alone(judge, one.prompt, one.kind, one.max_tokens)
    assert one.texts.keys() == expected.keys()
    for index, (tokens, reason) in one.texts.items():
        wanted, wanted_reason = expected[index]
        if one.aborted and reason == "abort":
            assert tokens == wanted[: len(tokens)]
        else:
            assert (tokens, reason) == (wanted, wanted_reason)


events = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 5), st.sampled_from(STREAMED), st.sampled_from(LENGTHS)),
    st.tuples(st.just("open"), st.integers(0, 5), st.sampled_from(STREAMED), st.sampled_from(LENGTHS)),
    st.tuples(st.just("take"), st.integers(0, 7)),
    st.tuples(st.just("take"), st.integers(0, 7)),
    st.tuples(st.just("abort"), st.integers(0, 7)),
    st.tuples(st.just("leave"), st.integers(0, 7)),
)


crowd = [("open", prompt, 0, 20) for prompt in range(6)] + [("take", place) for place in range(6)] * 3


@example(schedule=crowd, device=0.0, host=0.0)
@settings(max_examples=17, derandomize=True, deadline=None)
@given(
    schedule=st.lists(events, min_size=8, max_size=40),
    device=st.sampled_from([0.0, 2e-4, 2e-3]),
    host=st.sampled_from([0.0, 2e-4, 2e-3]),
)
def test_every_text_is_as_if_alone(
    engines: tuple[LLM, LLM], delays: Delays, schedule: list[tuple[Any, ...]], device: float, host: float
) -> None:
    judge, llm = engines
    delays.device, delays.host = device, host
    running: list[Open] = []
    for name, *details in schedule:
        if name == "open":
            prompt, kind, max_tokens = details
            request_id = f"request {next(NUMBERS)}"
            stream = llm.stream([PROMPTS[prompt]], params_of(kind, max_tokens), request_ids=[request_id])
            running.append(Open(prompt, kind, max_tokens, request_id, stream))
        elif running:
            one = running[details[0] % len(running)]
            if name == "take" and not one.take():
                running.remove(one)
                assert_as_alone(judge, one)
            if name == "abort":
                one.aborted = True
                llm.abort(one.request_id)
            if name == "leave":
                running.remove(one)
                one.stream.close()
        llm._runtime.engine._scheduler.check()
    for one in running:
        while one.take():
            pass
        assert_as_alone(judge, one)
    delays.device = delays.host = 0.0
    assert_idle(llm)
