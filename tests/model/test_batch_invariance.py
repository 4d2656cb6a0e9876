"""Batch invariance end to end: 64 mixed requests together, in any order, chunking and thread count, against each alone.

Alone, a request is run with `golden_token_ids` set to what it gave in the batch, so that a single different bit cannot
hide behind a different continuation.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.sampling.seeds import derive_choice_seed

KINDS = (
    {"temperature": 0},
    {"temperature": 1, "logprobs": 5},
    {"temperature": 0.7, "top_p": 0.9, "logprobs": 0, "seed": 5},
    {"temperature": 1.3, "top_k": 20, "min_p": 0.02, "logprobs": 3, "logprobs_mode": "processed"},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.5, "logprobs": 2},
    {"temperature": 1, "presence_penalty": 1.0, "prompt_logprobs": 2, "logprobs": 1, "seed": 7},
    {"temperature": 0, "logit_bias": {5: 2.0, 9: -50.0}, "prompt_logprobs": 0, "logprobs": -1},
    {"temperature": 0.9, "bad_words": ["a", "the"], "min_tokens": 3, "prompt_logprobs": -1, "logprobs": 2},
    {"temperature": 1, "allowed_token_ids": list(range(20, 120)), "stop": ["q"], "logprobs": 4},
)


def requests(number: int, longest: int) -> tuple[list[list[int]], list[SamplingParams]]:
    """Prompts of 1 .. `longest` ids and a parameter set for each."""
    rng = np.random.default_rng(17)
    prompts = [rng.integers(20, 280, int(length)).tolist() for length in rng.integers(1, longest + 1, number)]
    params = [
        SamplingParams(max_tokens=4 + place % 7, ignore_eos=place % 3 == 0, **KINDS[place % len(KINDS)])
        for place in range(number)
    ]
    return prompts, params


def forced(params: SamplingParams, output: RequestOutput) -> SamplingParams:
    """The same request with the tokens of `output` forced; its seed is stated, as its number will be another."""
    tokens = output.outputs[0].token_ids
    return params.replace(
        golden_token_ids=tokens, seed=output.metrics.seed, max_tokens=max(len(tokens), params.min_tokens)
    )


def assert_same_bits(one: RequestOutput, other: RequestOutput) -> None:
    """Token ids, log-probabilities, ranks and top lists of output and prompt."""
    assert one.error is None and other.error is None, (one.error, other.error)
    a, b = one.outputs[0], other.outputs[0]
    assert a.token_ids == b.token_ids and a.text == b.text
    names = ("logprobs", "ranks", "top_ids", "top_logprobs")
    assert (a.logprobs is None) == (b.logprobs is None)
    if a.logprobs is not None and b.logprobs is not None:
        for name in names:
            assert np.array_equal(getattr(a.logprobs, name), getattr(b.logprobs, name)), name
    assert (one.prompt_logprobs is None) == (other.prompt_logprobs is None)
    if one.prompt_logprobs is not None and other.prompt_logprobs is not None:
        for name in names:
            left, right = (getattr(item.prompt_logprobs, name) for item in (one, other))
            assert (left is None) == (right is None) and (left is None or np.array_equal(left, right)), name


def small_cache(blocks: int) -> dict[str, int]:
    """Options under which requests are preempted and prompts cut; the cache size in blocks."""
    return {"kv_cache_bytes": blocks, "max_num_seqs": 8, "max_num_batched_tokens": 41, "max_prefill_chunk": 7}


def check(
    path: Path, numerics: str, number: int, longest: int, every: int, variants: list[tuple[int, dict[str, int]]]
) -> None:
    """Together in a normal engine; each (of every so many) alone; all again, shuffled, per (threads, options)."""
    prompts, params = requests(number, longest)
    options = {"numerics": numerics, "max_model_len": 128, "block_size": 8, "max_num_seqs": number}
    with LLM(path, **options) as llm:
        together = llm.generate(prompts, params, use_tqdm=False)
        block_bytes = llm._runtime.worker.memory_plan.block_bytes
        for place in range(0, number, every):
            (alone,) = llm.generate([prompts[place]], forced(params[place], together[place]), use_tqdm=False)
            assert_same_bits(alone, together[place])
            assert alone.metrics.batch_invariant is True
    order = list(range(number))
    random.Random(3).shuffle(order)
    seeded = [item.replace(seed=output.metrics.seed) for item, output in zip(params, together, strict=True)]
    for num_threads, changes in variants:
        changed = {**options, **changes}
        if "kv_cache_bytes" in changes:
            changed["kv_cache_bytes"] *= block_bytes
        with LLM(path, num_threads=num_threads, **changed) as llm:
            again = llm.generate([prompts[p] for p in order], [seeded[p] for p in order], use_tqdm=False)
            assert "kv_cache_bytes" not in changes or llm.stats().num_preemptions > 0
        for place, output in zip(order, again, strict=True):
            assert_same_bits(output, together[place])


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_a_request_gives_the_same_bits_alone_and_in_any_company(random_model: Path, numerics: str) -> None:
    check(random_model, numerics, len(KINDS), 16, every=4, variants=[(1, small_cache(6))])


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_two_threads_give_the_same_bits(random_model: Path, numerics: str) -> None:
    prompts = [list(range(3, 3 + length)) for length in (1, 40, 7)]
    params = SamplingParams(seed=1, max_tokens=2, ignore_eos=True, logprobs=-1, prompt_logprobs=-1)
    one, two = [], []
    for num_threads, outputs in ((1, one), (2, two)):
        with LLM(random_model, numerics=numerics, max_model_len=64, num_threads=num_threads) as llm:
            outputs += llm.generate(prompts, params, use_tqdm=False)
    for left, right in zip(one, two, strict=True):
        assert_same_bits(left, right)


CHOICES = SamplingParams(n=4, seed=11, max_tokens=10, ignore_eos=True, logprobs=2, prompt_logprobs=1, min_p=0.01)
CHOICE_OPTIONS = {"numerics": "fp32", "max_model_len": 64, "block_size": 8, "max_num_seqs": 16}


@pytest.fixture(scope="module")
def single_choices(random_model: Path) -> list[list[RequestOutput]]:
    """Per prompt the four requests that the choices must equal, each run alone."""
    prompts, _ = requests(2, longest=20)
    singles = [CHOICES.replace(n=1, seed=derive_choice_seed(11, choice)) for choice in range(4)]
    with LLM(random_model, **CHOICE_OPTIONS) as llm:
        return [[llm.generate([prompt], one, use_tqdm=False)[0] for one in singles] for prompt in prompts]


@pytest.mark.parametrize(
    "changes",
    [{}, {"max_prefill_chunk": 5}, {"max_num_seqs": 3}, {"max_num_batched_tokens": 9}, {"kv_cache_bytes": 9}],
)
def test_every_choice_equals_a_request_of_its_own(
    random_model: Path, single_choices: list[list[RequestOutput]], changes: dict[str, int]
) -> None:
    """Choice 0 is the n = 1 request, choice j the request with the derived seed, whatever runs beside it."""
    options = {**CHOICE_OPTIONS, **changes}
    if "kv_cache_bytes" in changes:  # given in blocks
        with LLM(random_model, **CHOICE_OPTIONS) as llm:
            options["kv_cache_bytes"] *= llm._runtime.worker.memory_plan.block_bytes
    prompts, _ = requests(2, longest=20)
    with LLM(random_model, **options) as llm:
        outputs = llm.generate([prompts[0], *prompts, [5] * 17], CHOICES, use_tqdm=False)[1:3]
        assert "kv_cache_bytes" not in changes or llm.stats().num_preemptions > 0
    for output, singles in zip(outputs, single_choices, strict=True):
        assert [completion.index for completion in output.outputs] == [0, 1, 2, 3]
        for completion, single in zip(output.outputs, singles, strict=True):
            own = replace(single.outputs[0], index=completion.index)
            assert_same_bits(replace(output, outputs=[completion]), replace(single, outputs=[own]))
        assert len({tuple(completion.token_ids) for completion in output.outputs}) == 4


WHOLE = [(1, {"max_prefill_chunk": 5}), (2, small_cache(10)), (2, {"max_num_batched_tokens": 23, "max_num_seqs": 5})]


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("numerics", ["fp32", "official", "fp32-quant"])
def test_64_requests_together_and_each_alone(random_model: Path, numerics: str) -> None:
    check(random_model, numerics, 64, 60, every=1, variants=WHOLE)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_64_requests_on_the_bundled_model(numerics: str) -> None:
    from deepinfer.engine.model_path import bundled_model_path

    check(bundled_model_path(), numerics, 64, 60, every=4, variants=WHOLE[1:2])
