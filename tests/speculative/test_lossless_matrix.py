"""Drafts on equal drafts off: 64 mixed requests, over models, widths, budgets, preemption and chunks, pairwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepinfer import LLM, RequestOutput, SamplingParams
from tests.speculative.table_drafts import costs
from tests.speculative.test_lossless import assert_equal
from tests.support.golden_case import GOLDEN

NUM_REQUESTS, BLOCKS_WHEN_TIGHT = 64, 24
OPTIONS: dict[str, Any] = {"max_model_len": 128, "max_num_seqs": 16, "block_size": 8}
KINDS: list[dict[str, Any]] = [
    {"temperature": 0, "logprobs": 3},
    {"temperature": 1.0, "seed": 5, "logprobs": 2, "logprobs_mode": "processed"},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "seed": 6, "n": 3},
    {"temperature": 0, "logit_bias": {7: 2.0}, "min_tokens": 3, "stop": ["e", "q"]},
    {"temperature": 0, "structured_outputs": {"regex": "[a-z ]{6,20}"}},
    {"temperature": 0.5, "seed": 1, "stop_token_ids": list(range(50, 90)), "logprobs": 1},
    {"temperature": 0, "prompt_logprobs": 1, "presence_penalty": 1.0, "n": 2},
    {"temperature": 0.9, "structured_outputs": {"choice": ["yes", "no", "none of these"]}},
    {"temperature": 1.2, "min_p": 0.05, "allowed_token_ids": list(range(40, 200))},
    {"temperature": 0, "ignore_eos": True, "logits_processors": [lambda ids, row: row.roll(len(ids) % 3)]},
    {"temperature": 0.8, "golden_token_ids": [60, -1, 61, -1, -1, 62], "seed": 9, "logprobs": 0},
    {"temperature": 1.0, "stop": [" t", "an"], "include_stop_str_in_output": True, "bad_words": ["the"]},
]


@dataclass(frozen=True)
class Model:
    """What the matrix runs on."""

    name: str
    path: Path | None
    numerics: str


@dataclass(frozen=True)
class Case:
    """One row of the pairwise table."""

    num_drafts: int
    varlen: bool
    tight: bool
    chunked: bool


def pairwise_cases() -> Iterator[Case]:
    """Every pair of values of any two factors occurs."""
    for num_drafts in range(1, 8):
        tight, chunked = bool(num_drafts & 1), bool(num_drafts & 2)
        yield Case(num_drafts, False, tight, chunked)
        yield Case(num_drafts, True, not tight, not chunked)


MODELS = ["nano", "random", "mini-fp32", "mini-official"]


@pytest.fixture(scope="module", params=MODELS)
def model(request, random_model) -> Model:
    paths = {"nano": GOLDEN / "nano-s1", "random": random_model}
    numerics = "official" if request.param == "mini-official" else "fp32"
    return Model(request.param, paths.get(request.param), numerics)


def mixed_requests(model: Model) -> tuple[list[Any], list[SamplingParams]]:
    """64 prompts of 1 to 60 tokens (texts for the bundled model) and parameters of every kind."""
    rng = np.random.default_rng(23)
    texts = json.loads((files("deepinfer") / "data/mini/prompts.json").read_text("utf-8"))
    prompts: list[Any] = [rng.integers(20, 270, length).tolist() for length in rng.integers(1, 60, NUM_REQUESTS)]
    if model.path is None:
        prompts[::2] = [(texts["chat"] + texts["text"])[place % 12] for place in range(NUM_REQUESTS // 2)]
    limits = rng.integers(4, 28, NUM_REQUESTS)
    return prompts, [
        SamplingParams(max_tokens=int(limit), **KINDS[place % len(KINDS)]) for place, limit in enumerate(limits)
    ]


@pytest.fixture(scope="module")
def without_drafts(model) -> tuple[list[RequestOutput], int]:
    """Outputs with drafts off, and the bytes of a tight cache."""
    prompts, params = mixed_requests(model)
    with LLM(model.path, numerics=model.numerics, speculative="off", **OPTIONS) as llm:
        block_bytes = llm._runtime.worker.memory_plan.block_bytes
        return llm.generate(prompts, params, use_tqdm=False), block_bytes * BLOCKS_WHEN_TIGHT


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", list(pairwise_cases()), ids=str)
def test_lossless(case, model, without_drafts):
    off, tight_bytes = without_drafts
    prompts, params = mixed_requests(model)
    curve = {"cost_curve": costs(0.3, 0.5)} if case.varlen else {}
    options = OPTIONS | {"speculative": {"num_drafts": case.num_drafts, **curve}}
    options |= {"kv_cache_bytes": tight_bytes} if case.tight else {}
    options |= {"max_prefill_chunk": 7, "max_num_batched_tokens": 41} if case.chunked else {}
    with LLM(model.path, numerics=model.numerics, **options) as llm:
        on = llm.generate(prompts, params, use_tqdm=False)
        stats = llm.stats()
        llm._runtime.engine._scheduler.check()
    assert_equal(on, off)
    assert [output.outputs[0].text for output in on] == [output.outputs[0].text for output in off]
    assert [output.prompt_logprobs for output in on] == [output.prompt_logprobs for output in off]
    assert stats.num_drafts_verified > 0
    assert stats.num_drafts_accepted > 0 or (model.name == "random" and case.varlen)  # few of its drafts are right
    assert (stats.num_preemptions > 0) == case.tight
    if case.varlen and case.num_drafts > 1:
        assert stats.num_drafts_verified < case.num_drafts * stats.num_verify_steps
