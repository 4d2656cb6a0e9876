"""Drafts on equal drafts off, token for token and bit for bit: coupled acceptance in batch-invariant mode."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepinfer import LLM, RequestOutput, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.golden_case import GOLDEN
from tests.support.random_config import random_draft_config
from tests.support.tiny_config import tiny_config

PROMPTS = json.loads((files("deepinfer") / "data/mini/prompts.json").read_text("utf-8"))


def prompts_of(num: int, vocab_size: int, longest: int) -> list[list[int]]:
    rng = np.random.default_rng(17)
    return [rng.integers(3, vocab_size, int(length)).tolist() for length in rng.integers(1, longest, num)]


def mixed_params(num: int, max_tokens: int) -> list[SamplingParams]:
    """Greedy and seeded sampling, penalties, logprobs, bans, stops, minimum lengths."""
    kinds: list[dict[str, Any]] = [
        {"temperature": 0, "logprobs": 3},
        {"temperature": 1.0, "seed": 5},
        {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
        {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "seed": 6, "logprobs": 1},
        {"temperature": 0, "logit_bias": {7: 2.0}, "min_tokens": 3},
        {"temperature": 0, "allowed_token_ids": list(range(40, 200))},
        {"temperature": 0.5, "seed": 1, "stop_token_ids": list(range(50, 90))},
        {"temperature": 0, "prompt_logprobs": 1, "presence_penalty": 1.0},
    ]
    return [SamplingParams(max_tokens=1 + (max_tokens + i) % max_tokens, **kinds[i % len(kinds)]) for i in range(num)]


def run(model: str | Path | None, prompts: list[Any], params: Any, **options: Any) -> tuple[list[RequestOutput], Any]:
    """With drafts in every step, unless `options` say something else about them."""
    with LLM(model, **{"speculative": {"varlen": False}, **options}) as llm:
        outputs = llm.generate(prompts, params, use_tqdm=False)
        return outputs, llm.stats()


def assert_equal(on: list[RequestOutput], off: list[RequestOutput]) -> None:
    for one, other in zip(on, off, strict=True):
        assert one.error is None, one.error
        for mine, theirs in zip(one.outputs, other.outputs, strict=True):
            assert mine.token_ids == theirs.token_ids
            assert mine.logprobs == theirs.logprobs
            assert (mine.finish_reason, mine.stop_reason) == (theirs.finish_reason, theirs.stop_reason)
            assert mine.num_accepted_tokens <= mine.num_draft_tokens


@pytest.mark.parametrize("num_drafts", [1, 3, 5, 7])
def test_nano(num_drafts: int) -> None:
    prompts, params = prompts_of(12, 500, 40), mixed_params(12, 24)
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 128, "max_num_seqs": 6, "block_size": 4}
    off, _ = run(GOLDEN / "nano-s1", prompts, params, speculative="off", **options)
    on, stats = run(GOLDEN / "nano-s1", prompts, params, speculative={"num_drafts": num_drafts}, **options)
    assert_equal(on, off)
    assert stats.num_drafts_accepted > 0
    assert stats.num_verify_tokens > stats.num_verify_steps


def test_tiny_caches_chunks_and_forks() -> None:
    """Preemption, chunked prefill, tight budgets and n > 1 with drafts on."""
    prompts = prompts_of(10, 500, 50)
    params = [SamplingParams(temperature=0.8, seed=i, n=1 + i % 3, max_tokens=20, ignore_eos=True) for i in range(10)]
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 96, "block_size": 4, "max_prefill_chunk": 7}
    off, _ = run(GOLDEN / "nano-s1", prompts, params, speculative="off", max_num_seqs=12, **options)
    on, stats = run(
        GOLDEN / "nano-s1", prompts, params, max_num_seqs=8, max_num_batched_tokens=17, kv_cache_bytes=80_000, **options
    )
    assert stats.num_preemptions > 0
    assert_equal(on, off)


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_bundled_model(numerics: str) -> None:
    prompts = PROMPTS["chat"][:4] + PROMPTS["text"][:2]
    params = [SamplingParams(temperature=0 if i % 2 else 0.7, seed=i, max_tokens=30, logprobs=2) for i in range(6)]
    off, _ = run(None, prompts, params, speculative="off", numerics=numerics, max_model_len=256)
    on, stats = run(None, prompts, params, numerics=numerics, max_model_len=256)
    assert_equal(on, off)
    assert stats.tokens_per_verify_step > 2


@pytest.mark.parametrize("seed", range(2))
def test_random_checkpoints(seed: int, tmp_path: Path) -> None:
    write_random_checkpoint(tiny_config(), tmp_path, seed=seed)
    prompts, params = prompts_of(8, 280, 30), mixed_params(8, 20)
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 64, "max_num_seqs": 5, "block_size": 2}
    off, _ = run(tmp_path, prompts, params, speculative="off", **options)
    on, _ = run(tmp_path, prompts, params, **options)
    assert_equal(on, off)


def check_random_config(seed: int, directory: Path) -> None:
    """Other stages, blocks, ranks, experts and windows, under both rules; drafts far longer than block and window."""
    config = random_draft_config(seed)
    write_random_checkpoint(config, directory, seed=seed)
    prompts, params = prompts_of(5, 280, 30), mixed_params(5, 12)
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 48, "max_num_seqs": 3, "block_size": 4}
    off, _ = run(directory, prompts, params, speculative="off", **options)
    for num_drafts in (config["text_config"]["dspark_block_size"], 16 + seed % 17):
        on, stats = run(
            directory, prompts, params, speculative={"num_drafts": num_drafts}, max_prefill_chunk=7, **options
        )
        assert_equal(on, off)
        assert stats.num_drafts_verified > 0
        free, _ = run(
            directory, prompts, params, speculative={"num_drafts": num_drafts}, batch_invariant=False, **options
        )
        greedy = [place for place, item in enumerate(params) if item.greedy]
        assert_equal([free[place] for place in greedy], [off[place] for place in greedy])


@settings(max_examples=3, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_random_configs(seed: int) -> None:
    with TemporaryDirectory() as directory:
        check_random_config(seed, Path(directory))


@pytest.mark.slow
@settings(max_examples=40, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**31 - 1))
def test_many_random_configs(seed: int) -> None:
    with TemporaryDirectory() as directory:
        check_random_config(seed, Path(directory))


def test_structured_output_and_stop_strings() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}, "required": ["name"]}
    prompts = [PROMPTS["chat"][4], PROMPTS["chat"][1], PROMPTS["chat"][6]]
    params = [
        SamplingParams(temperature=0, max_tokens=40, structured_outputs={"json": schema}),
        SamplingParams(temperature=0, max_tokens=40, stop=[" house"]),
        SamplingParams(temperature=0, max_tokens=40, stop=["41, 6"], include_stop_str_in_output=True),
    ]
    off, _ = run(None, prompts, params, speculative="off", max_model_len=256)
    on, _ = run(None, prompts, params, max_model_len=256)
    assert_equal(on, off)
    assert [output.outputs[0].text for output in on] == [output.outputs[0].text for output in off]
    assert json.loads(on[0].outputs[0].text)


@pytest.mark.parametrize("stop_id", [14, 92, 381])
def test_stop_ids_inside_an_accepted_run(stop_id: int) -> None:
    """A stop id ends the text where it stands, with a grammar (there it counts for whole values only) and without."""
    kinds: list[dict[str, Any]] = [{"structured_outputs": {"regex": "[^\\x00]*"}}, {}, {"min_tokens": 5}]
    params = [SamplingParams(temperature=0, max_tokens=30, stop_token_ids=[stop_id], **kind) for kind in kinds]
    prompts = [PROMPTS["chat"][0]] * len(kinds)
    off, _ = run(None, prompts, params, speculative="off", max_model_len=128)
    on, _ = run(None, prompts, params, max_model_len=128)
    assert_equal(on, off)


def test_own_processors_never_see_text_behind_the_end() -> None:
    seen: dict[str, list[int]] = {"off": [], "on": []}
    for name, options in (("off", {"speculative": "off"}), ("on", {})):
        lengths = seen[name]
        params = SamplingParams(
            temperature=0, max_tokens=40, logits_processors=[lambda ids, row, log=lengths: log.append(len(ids)) or row]
        )
        run(None, [PROMPTS["chat"][0]], params, max_model_len=128, **options)
    assert seen["on"] == seen["off"]


def test_accepted_drafts_are_tokens_that_stay() -> None:
    prompts = PROMPTS["chat"]
    (whole, _) = run(None, prompts, SamplingParams(temperature=0, max_tokens=40), max_model_len=128)
    stops = [output.outputs[0].text[5:8] for output in whole]
    params = [SamplingParams(temperature=0, max_tokens=40, stop=[stop]) for stop in stops]
    on, _ = run(None, prompts, params, max_model_len=128)
    for output in on:
        completion = output.outputs[0]
        assert completion.num_accepted_tokens <= len(completion.token_ids)
    ended, stats = run(None, prompts, SamplingParams(temperature=0, max_tokens=40), max_model_len=128)
    assert sum(output.outputs[0].num_accepted_tokens for output in ended) == stats.num_drafts_accepted


def test_case_24_at_the_context_limit() -> None:
    """No stale drafts, no position behind the limit: tokens and values equal those without drafts."""
    prompts = [prompts_of(1, 500, 64)[0][:1] * length for length in range(55, 65)]
    params = SamplingParams(temperature=0, max_tokens=None, ignore_eos=True, logprobs=1)
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 64, "max_num_seqs": 4}
    off, _ = run(GOLDEN / "nano-s1", prompts, params, speculative="off", **options)
    on, _ = run(GOLDEN / "nano-s1", prompts, params, speculative={"num_drafts": 3}, **options)
    assert_equal(on, off)
    for prompt, output in zip(prompts, on, strict=True):
        assert len(prompt) + len(output.outputs[0].token_ids) <= 64


def test_capture_shows_no_rejected_rows() -> None:
    prompt = prompts_of(1, 500, 30)[0]
    options: dict[str, Any] = {"numerics": "fp32", "max_model_len": 128, "speculative": {"varlen": False}}
    with LLM(GOLDEN / "nano-s1", **options) as llm, llm.capture("final.hidden") as tap:
        (output,) = llm.generate(
            [prompt], SamplingParams(temperature=0, max_tokens=15, ignore_eos=True), use_tqdm=False
        )
        assert llm.stats().num_drafts_verified > 0
    last = len(prompt) + 15 - 2
    assert tap.positions("final.hidden", output.request_id).tolist()[-1] == last
