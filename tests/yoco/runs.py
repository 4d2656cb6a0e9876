"""Runs of an engine with YOCO prefill whose state slots are poisoned when a sequence takes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.core.step_plan import StepPlan
from deepinfer.engine.stats import EngineStats
from deepinfer.engine.tap import Tap
from deepinfer.worker.memory_plan import MemoryPlan


@dataclass(frozen=True)
class Run:
    """Outputs of one engine, and what was recorded while it made them."""

    outputs: list[RequestOutput]
    tap: Tap
    stats: EngineStats
    memory: MemoryPlan


@contextmanager
def poisoned(model: str | Path | None, **options: Any) -> Iterator[LLM]:
    """An engine in which every fresh state slot holds NaN: what is read without having been written shows up."""
    with LLM(model, **options) as llm:
        runner = llm._runtime.worker._runner
        assert runner is not None
        caches, forward = runner._caches, runner.forward

        def forward_poisoned(plan: StepPlan) -> None:
            fresh = torch.from_numpy(plan.state_slots[plan.context_lens == plan.window_starts].astype(np.int64))
            for cache in caches.window.values():
                cache.data[fresh] = 0xFF
            for state in caches.compressor.values():
                state[fresh] = torch.nan
            forward(plan)

        runner.forward = forward_poisoned  # type: ignore[method-assign]
        yield llm


def run(model: str | Path | None, prompts: list[Any], params: Any, *patterns: str, **options: Any) -> Run:
    """Generate, recording what the patterns name (the logits if there are none)."""
    with poisoned(model, **options) as llm, llm.capture(*(patterns or ("logits",))) as tap:
        outputs = llm.generate(prompts, params, use_tqdm=False)
        for output in outputs:
            assert output.error is None, output.error
        return Run(outputs, tap, llm.stats(), llm._runtime.worker.memory_plan)


def prompts_of(lengths: list[int], vocab_size: int) -> list[list[int]]:
    """Random prompts of these lengths, the same for the same lengths; without the special ids of any test model."""
    rng = np.random.default_rng(23)
    return [rng.integers(14, vocab_size, length).tolist() for length in lengths]


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, logprobs=2)


def assert_same_texts(run: Run, wanted: Run) -> None:
    """Tokens and log-probabilities are equal to the bit."""
    for output, want in zip(run.outputs, wanted.outputs, strict=True):
        for mine, theirs in zip(output.outputs, want.outputs, strict=True):
            assert mine.token_ids == theirs.token_ids
            assert mine.logprobs == theirs.logprobs


def assert_same_rows(run: Run, wanted: Run) -> None:
    """Whatever `run` recorded is, at each of its positions, equal to the bit to what `wanted` recorded there."""
    assert run.tap.names() and set(run.tap.names()) <= set(wanted.tap.names())
    for name in run.tap.names():
        for output, want in zip(run.outputs, wanted.outputs, strict=True):
            positions = run.tap.positions(name, output.request_id)
            places = np.searchsorted(wanted.tap.positions(name, want.request_id), positions)
            assert (wanted.tap.positions(name, want.request_id)[places] == positions).all(), name
            theirs = wanted.tap.tensor(name, want.request_id)[torch.from_numpy(places)]
            assert torch.equal(run.tap.tensor(name, output.request_id), theirs), name
