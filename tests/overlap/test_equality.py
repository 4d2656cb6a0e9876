"""Overlapped steps give the tokens of steps one after the other, whatever a request asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepinfer import LLM, SamplingParams
from tests.overlap.delays import Delays
from tests.overlap.pair import KINDS, Pair, assert_idle, params_of, prompts_of
from tests.support.golden_case import GOLDEN

CURVE = {"step": [[1, 1.0], [4, 1.1], [8, 1.6], [16, 3.0], [64, 12.0]], "draft": [[4, 0.3], [16, 0.9]]}
SPECULATIVE = {
    "off": "off",
    "all": {"num_drafts": 5, "varlen": False},
    "varlen": {"num_drafts": 5, "cost_curve": CURVE},
}
TEXTS = ["Question: What is 2 + 3?", "Hello, my name is", "1 2 3 4 5 6", "The cat sat on"]
NANO: dict[str, Any] = {"max_model_len": 96, "max_num_seqs": 6, "block_size": 4}


@pytest.fixture(params=list(SPECULATIVE))
def speculative(request: pytest.FixtureRequest) -> Any:
    return SPECULATIVE[request.param]


@pytest.fixture(autouse=True)
def slow_now_and_then(delays: Delays) -> Iterator[None]:
    delays.device = delays.host = 3e-4
    yield
    delays.device = delays.host = 0.0


def test_all_kinds_of_requests(speculative: Any, delays: Delays) -> None:
    """More of them than run at once; on the native model, whose steps are on the device's thread."""
    num = 2 * len(KINDS)
    params = [params_of(kind, 1 + (11 * kind) % 20) for kind in range(num)]
    before = delays.launched
    with Pair.open(GOLDEN / "nano-s1", speculative=speculative, **NANO) as pair:
        pair.assert_equal(prompts_of(num, 500, 40), params)
    assert delays.launched > before + 50


@pytest.mark.parametrize("kind", [0, 1])
def test_plain_requests_alone(kind: int, speculative: Any) -> None:
    """Every decode step is native from end to end."""
    params = params_of(kind, 24).replace(ignore_eos=True)
    with Pair.open(GOLDEN / "nano-s1", speculative=speculative, **NANO) as pair:
        for num in (1, 5, 9):
            pair.assert_equal(prompts_of(num, 500, 20, seed=num), params)


def test_the_trained_model(speculative: Any) -> None:
    """Its drafts are often right, so that lengths are far from their bounds."""
    with Pair.open(None, max_model_len=192, speculative=speculative, block_size=4, max_num_seqs=4) as pair:
        greedy = SamplingParams(temperature=0, max_tokens=40)
        free = pair.assert_equal(TEXTS, greedy.replace(ignore_eos=True))
        texts = [output.outputs[0].text for output in free]
        stops = [text[len(text) // 2 :][:3] for text in texts]
        ids = [output.outputs[0].token_ids[7] for output in free]
        params = [greedy.replace(stop=[stops[0], stops[1]]), greedy.replace(stop_token_ids=ids[1:2])]
        params += [greedy.replace(stop=stops[2:3], min_tokens=12), greedy.replace(stop_token_ids=ids[3:], min_tokens=9)]
        stopped = pair.assert_equal(TEXTS, params)
        assert [output.outputs[0].finish_reason for output in stopped[:2]] == ["stop", "stop"]
        pair.assert_equal(TEXTS, SamplingParams(temperature=1.0, seed=4, n=2, max_tokens=20, stop=["e", "7"]))
        if speculative != "off":
            assert pair.overlapped.stats().num_drafts_accepted > 5


def test_structured_output() -> None:
    grammars: list[dict[str, Any]] = [
        {"choice": ["yes", "no", "perhaps not"]},
        {"regex": r"[0-9]{3}-[a-c]+"},
        {"json": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    ]
    params = [
        SamplingParams(temperature=0.8, seed=i, max_tokens=24, structured_outputs=g) for i, g in enumerate(grammars)
    ]
    params.append(SamplingParams(temperature=0, max_tokens=24))
    for speculative in ("off", {"varlen": False}):
        with Pair.open(None, max_model_len=128, speculative=speculative) as pair:
            outputs = pair.assert_equal(TEXTS, params)
            assert all(output.outputs[0].grammar_complete for output in outputs[:2])


def test_small_caches_preempt(speculative: Any) -> None:
    params = [SamplingParams(temperature=0.8, seed=i, n=1 + i % 3, max_tokens=20, ignore_eos=True) for i in range(10)]
    options = {"max_num_seqs": 8, "max_num_batched_tokens": 17, "max_prefill_chunk": 7, "kv_cache_bytes": 80_000}
    options |= {"max_model_len": 96, "block_size": 4}
    with Pair.open(GOLDEN / "nano-s1", numerics="fp32", speculative=speculative, **options) as pair:
        pair.assert_equal(prompts_of(10, 500, 50), params)
        assert pair.overlapped.stats().num_preemptions > 0


def test_a_cache_that_ends_before_the_text() -> None:
    params = SamplingParams(temperature=0, max_tokens=90, ignore_eos=True)
    options = {"max_model_len": 96, "block_size": 4, "max_num_seqs": 2, "kv_cache_bytes": 20_000}
    with Pair.open(GOLDEN / "nano-s1", numerics="fp32", speculative={"num_drafts": 3}, **options) as pair:
        pair.assert_equal(prompts_of(4, 500, 30), params)


def test_the_models_own_end_of_positions(random_model: Path) -> None:
    """Texts of all lengths up to max_model_len, so that drafts find less and less room."""
    params = [SamplingParams(temperature=0.9, seed=i, max_tokens=32, ignore_eos=True) for i in range(12)]
    with Pair.open(random_model, max_model_len=32, block_size=4, max_num_seqs=5, speculative={"num_drafts": 3}) as pair:
        outputs = pair.assert_equal(prompts_of(12, 280, 28), params)
        assert all(len(o.prompt_token_ids) + len(o.outputs[0].token_ids) == 32 for o in outputs)


def test_yoco(random_model: Path, speculative: Any) -> None:
    if isinstance(speculative, dict):
        speculative = {**speculative, "num_drafts": 3}
    options: dict[str, Any] = {"max_model_len": 128, "block_size": 4, "max_num_seqs": 4, "max_prefill_chunk": 13}
    yoco = {"mode": "compact", "keep_tokens": 12}
    with Pair.open(random_model, yoco=yoco, speculative=speculative, **options) as pair:
        pair.assert_equal(prompts_of(8, 280, 60), [params_of(kind, 20) for kind in (0, 1, 2, 4, 5, 6, 8, 0)])


def test_saved_prefixes(random_model: Path) -> None:
    """Saved while the request runs, so that steps that still write to its blocks are in flight."""
    (text,) = prompts_of(1, 280, 60, seed=2)
    tails = prompts_of(4, 280, 9, seed=3)
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    found = []
    for overlap in (False, True):
        with LLM(random_model, overlap=overlap, max_model_len=128, block_size=4, speculative={"num_drafts": 3}) as llm:
            stream = llm.stream([text], params, request_ids=["saved"])
            next(stream), next(stream)
            handle = llm.save_prefix("saved", allow_replay=True)
            prompts = [{"prefix": handle, "prompt_token_ids": [*handle.token_ids.tolist(), *tail]} for tail in tails]
            rest = [token for delta in stream for token in delta.token_ids]
            outputs = llm.generate(prompts, params, use_tqdm=False)
            assert all(output.error is None for output in outputs)
            found.append((handle.num_tokens, rest, [output.outputs[0].token_ids for output in outputs]))
            handle.close()
            assert_idle(llm)
    assert found[0] == found[1]


def test_own_logits_processors_see_every_token_before() -> None:
    seen: list[list[int]] = []

    def processor(generated: list[int], row: Any) -> Any:
        seen.append(list(generated))
        row[(17 * len(generated) + sum(generated)) % 400] += 100
        return row

    params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, logits_processors=[processor])
    with Pair.open(GOLDEN / "nano-s1", speculative={"num_drafts": 5, "varlen": False}, **NANO) as pair:
        (output,) = pair.assert_equal([[20, 21]], params)
    assert seen == 2 * [output.outputs[0].token_ids[:length] for length in range(12)]


def test_rejection_sampling_runs_clean() -> None:
    """Its tokens depend on which drafts were judged, and these on the batch; every text is whole all the same."""
    options: dict[str, Any] = {"speculative": {"num_drafts": 5, "acceptance": "rejection"}, "batch_invariant": False}
    params = [params_of(kind, 20).replace(ignore_eos=True) for kind in range(10)]
    with LLM(GOLDEN / "nano-s1", overlap=True, **NANO, **options) as llm:
        outputs = llm.generate(prompts_of(10, 500, 30), params, use_tqdm=False)
        assert all(output.error is None for output in outputs)
        assert all(choice.finish_reason in ("length", "stop") for output in outputs for choice in output.outputs)
        assert_idle(llm)
        memory = llm._runtime.worker._runner._chooser._memory
        assert memory is not None and not len(memory)


def test_the_reference_backend() -> None:
    """All of its work is torch's, so it runs on the caller's thread; plans are linked all the same."""
    num = len(KINDS)
    options: dict[str, Any] = {"backend": "reference", "numerics": "fp32", "speculative": {"num_drafts": 3}}
    with Pair.open(GOLDEN / "nano-s1", **options, **NANO) as pair:
        pair.assert_equal(prompts_of(num, 500, 20), [params_of(kind, 8) for kind in range(num)])
