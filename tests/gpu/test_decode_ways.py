"""Decode steps that end on the device give the tokens of the host: replayed or launched singly, overlapped or not."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.engine.overlapped_engine import OverlappedEngine
from deepinfer.errors import DeviceSyncError
from deepinfer.worker.static_decoder import StaticDecoder
from deepinfer.worker.static_sampler import StaticSampler
from deepinfer.worker.step_drafter import StepDrafter

pytest.importorskip("tilelang")

ROWS = [json.loads(line) for line in (files("deepinfer") / "data/mini/eval.jsonl").read_text("utf-8").splitlines()]
PROMPTS = [row["prompt"] for row in ROWS[::8]]
OPTIONS = {"device": "cuda", "backend": "cuda", "max_model_len": 1024, "kv_cache_bytes": 2**30, "max_num_seqs": 24}
COUPLED: dict[str, Any] = {"batch_invariant": True}
REJECTION: dict[str, Any] = {"batch_invariant": False, "speculative": {"acceptance": "rejection"}}


def params_of(number: int) -> SamplingParams:
    """Greedy ones and drawn ones of all kinds, with stops of their own."""
    length = 6 + 7 * number % 40
    if number % 3 == 0:
        return SamplingParams(temperature=0, max_tokens=length)
    filters: dict[str, Any] = {} if number % 3 == 1 else {"top_p": 0.9, "top_k": 40}
    return SamplingParams(temperature=1.0, seed=number, max_tokens=length, stop_token_ids=[number + 300], **filters)


def tokens_of(llm: LLM) -> list[list[int]]:
    params = [params_of(number) for number in range(len(PROMPTS))]
    outputs = llm.generate(PROMPTS, params, use_tqdm=False, strict=True)
    return [output.outputs[0].token_ids for output in outputs]


def count_choices(patch: pytest.MonkeyPatch, *, gives_up: bool = False) -> list[bool]:
    """Notes of every decode step whether it ended on the device; no step does with `gives_up`."""
    noted, choose = [], StaticSampler.choose

    def counted(sampler: StaticSampler, plan: Any) -> Any:
        chosen = None if gives_up else choose(sampler, plan)
        if plan.kind == "decode":  # prefill steps are always the host's
            noted.append(chosen is not None)
        return chosen

    patch.setattr(StaticSampler, "choose", counted)
    return noted


@pytest.mark.parametrize(
    "options", [COUPLED, COUPLED | {"speculative": "off"}, REJECTION], ids=["coupled", "off", "rejection"]
)
def test_both_ways(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for eager, gives_up in ((True, True), (True, False), (False, False)):
        with monkeypatch.context() as patch, LLM(enforce_eager=eager, **OPTIONS | options) as llm:
            noted = count_choices(patch, gives_up=gives_up)
            results.append(tokens_of(llm))
            if not eager:
                results.append(tokens_of(llm))  # replayed, all of it
            stats = llm.stats()
            print(f"\neager {eager}: {sum(noted)} of {stats.num_decode_steps} steps on the device, "
                  f"{stats.num_drafts_accepted} of {stats.num_drafts_verified} drafts accepted")  # fmt: skip
        assert all(chosen is not gives_up for chosen in noted) and noted
    assert results[1] == results[0], "the device's way gives what the host's does"
    assert results[2] == results[1], "captured graphs give what launches one by one do"
    assert results[3] == results[2] or options is REJECTION, "replayed graphs too"


def test_drafts_change_no_token() -> None:
    with LLM(**OPTIONS | COUPLED) as llm:
        expected = tokens_of(llm)
        assert llm.stats().num_drafts_accepted > 0
    with LLM(speculative="off", **OPTIONS | COUPLED) as llm:
        assert tokens_of(llm) == expected


ASKING = SamplingParams(temperature=0.8, seed=1, max_tokens=5, logprobs=2, ignore_eos=True)


@pytest.mark.parametrize("overlap", [False, True])
def test_steps_of_both_kinds_together(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that wants log-probabilities turns its steps over to the host; the others keep their tokens."""
    with LLM(overlap=overlap, **OPTIONS | COUPLED) as llm:
        expected = tokens_of(llm)
        noted = count_choices(monkeypatch)
        prompts, params = [*PROMPTS, PROMPTS[0]], [*(params_of(number) for number in range(len(PROMPTS))), ASKING]
        outputs = llm.generate(prompts[::-1], params[::-1], use_tqdm=False, strict=True)[::-1]
    assert [output.outputs[0].token_ids for output in outputs[:-1]] == expected
    assert len(outputs[-1].outputs[0].logprobs) == 5
    assert 0 < sum(noted) < len(noted)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"enforce_eager": True},
        {"speculative": "off"},
        {"yoco": {"mode": "compact"}},
        {"yoco": {"mode": "compact"}, "max_num_seqs": 5, "kv_cache_bytes": 2**18},
    ],
    ids=["drafts", "eager", "off", "yoco", "tight"],
)
def test_overlapped_equals_sync(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer places than requests, stops of their own, and sequences that end one after the other."""
    options = OPTIONS | COUPLED | options
    with LLM(overlap=False, **options) as llm:
        expected, steps = tokens_of(llm), llm.stats().num_decode_steps
    linked, forward = [], StaticDecoder.forward

    def noted(decoder: StaticDecoder, plan: Any) -> Any:
        linked.append(plan.previous_step_id >= 0)
        return forward(decoder, plan)

    monkeypatch.setattr(StaticDecoder, "forward", noted)
    with LLM(overlap=True, **options) as llm:
        assert isinstance(llm._runtime.engine, OverlappedEngine)
        got = [tokens_of(llm) for _ in range(2)]
    print(f"\n{sum(linked)} of {len(linked)} plans linked; the synchronous loop had {steps} decode steps")
    assert got == [expected, expected]
    assert sum(linked) > len(linked) // 4


def test_overlapped_rejection() -> None:
    """Tokens follow from the schedule; what is promised is that it runs, and that drafts are accepted as often."""
    rates = []
    for overlap in (False, True):
        with LLM(overlap=overlap, **OPTIONS | REJECTION) as llm:
            tokens_of(llm)
            stats = llm.stats()
        rates.append(stats.num_drafts_accepted / stats.num_drafts_verified)
    print(f"\nshare of accepted drafts: {rates}")
    assert abs(rates[1] - rates[0]) < 0.15


@pytest.mark.parametrize(("owner", "name"), [(StepDrafter, "follow"), (StaticDecoder, "_run")])
def test_waiting_while_a_step_is_handed_over_is_an_error(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = getattr(owner, name)

    def waits(part: Any, *arguments: Any) -> Any:
        result = plain(part, *arguments)
        torch.ones(1, device="cuda").item()
        return result

    params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
    with LLM(enforce_eager=True, **OPTIONS) as llm:
        (before,) = llm.generate(PROMPTS[:1], params, use_tqdm=False)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, waits)
            with pytest.raises(DeviceSyncError, match="test_decode_ways"):
                llm.generate(PROMPTS[:1], params, use_tqdm=False)
        (after,) = llm.generate(PROMPTS[:1], params, use_tqdm=False)
    assert after.outputs[0].token_ids == before.outputs[0].token_ids
