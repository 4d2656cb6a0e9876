"""The same requests through the synchronous and the overlapped engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.engine.llm_engine import LLMEngine
from deepinfer.engine.overlapped_engine import OverlappedEngine


@dataclass(frozen=True)
class Pair:
    """Two engines over one model."""

    sync: LLM
    overlapped: LLM

    @classmethod
    @contextmanager
    def open(cls, model: str | Path | None, **options: Any) -> Iterator[Pair]:
        """Both are built with the same options, but for the overlap, and closed at the end."""
        with LLM(model, overlap=False, **options) as sync, LLM(model, overlap=True, **options) as overlapped:
            assert type(sync._runtime.engine) is LLMEngine
            assert type(overlapped._runtime.engine) is OverlappedEngine
            yield cls(sync, overlapped)

    def assert_equal(self, prompts: list[Any], params: Any) -> list[RequestOutput]:
        """Everything about the outputs agrees; returns the overlapped ones."""
        expected, outputs = (llm.generate(prompts, params, use_tqdm=False) for llm in (self.sync, self.overlapped))
        for mine, theirs in zip(outputs, expected, strict=True):
            assert_same(mine, theirs)
        for llm in (self.sync, self.overlapped):
            assert_idle(llm)
        return outputs


def assert_same(mine: RequestOutput, theirs: RequestOutput) -> None:
    assert (mine.error is None) == (theirs.error is None), (mine.error, theirs.error)
    if mine.error is not None:
        assert (mine.error.code, mine.error.message) == (theirs.error.code, theirs.error.message)
    assert mine.prompt_logprobs == theirs.prompt_logprobs
    for one, other in zip(mine.outputs, theirs.outputs, strict=True):
        assert one.token_ids == other.token_ids
        assert one.text == other.text
        assert one.logprobs == other.logprobs
        assert (one.finish_reason, one.stop_reason) == (other.finish_reason, other.stop_reason)
        assert one.grammar_complete == other.grammar_complete


def assert_idle(llm: LLM) -> None:
    """Nothing is left: no block, no slot, no step, no sequence in the worker."""
    engine, worker = llm._runtime.engine, llm._runtime.worker
    worker.drain()
    engine._scheduler.check()
    stats = llm.stats()
    assert stats.num_running == stats.num_waiting == 0
    assert stats.num_free_blocks + engine._scheduler.num_saved_blocks == stats.num_blocks
    assert stats.num_free_state_slots == stats.num_state_slots
    assert not engine._steps and not engine._scheduler.steps_in_flight
    assert worker._runner is not None and not worker._runner._chooser._sequences


def prompts_of(num: int, vocab_size: int, longest: int, seed: int = 17) -> list[list[int]]:
    """Random prompts without the special ids of any test model."""
    rng = np.random.default_rng(seed)
    return [rng.integers(14, vocab_size, int(length)).tolist() for length in rng.integers(1, longest, num)]


KINDS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 1.0, "seed": 5},
    {"temperature": 0, "logprobs": 3},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "seed": 6, "logprobs": 1},
    {"temperature": 0, "logit_bias": {17: 2.0}, "min_tokens": 3},
    {"temperature": 0.5, "seed": 1, "stop_token_ids": list(range(50, 70))},
    {"temperature": 0, "prompt_logprobs": 1, "presence_penalty": 1.0},
    {"temperature": 0.9, "seed": 8, "n": 3},
)


def params_of(kind: int, max_tokens: int) -> SamplingParams:
    """One of the kinds of requests."""
    return SamplingParams(max_tokens=max_tokens, **KINDS[kind % len(KINDS)])
