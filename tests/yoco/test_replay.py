"""Prompts on saved prefixes: what is reused and rebuilt, which bits may change, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.errors import RequestError, UnsupportedFeatureError
from tests.yoco.runs import greedy, poisoned, prompts_of

WINDOW = 8
BASE: dict[str, Any] = {"numerics": "fp32", "max_num_seqs": 8, "max_model_len": 160, "block_size": 4}


@pytest.fixture
def llm(random_model: Path) -> Iterator[LLM]:
    with poisoned(random_model, speculative="off", **BASE) as llm:
        yield llm


def generate(llm: LLM, prompt: Any, params: SamplingParams) -> Any:
    (output,) = llm.generate([prompt], params, use_tqdm=False)
    assert output.error is None, output.error
    return output


def test_what_is_reused(llm: LLM) -> None:
    text, tail = prompts_of([60, 5], 280)
    first = generate(llm, text, greedy(4))
    with llm.save_prefix(first.request_id, allow_replay=True) as handle:
        assert handle.token_ids.tolist() == text + first.outputs[0].token_ids[:3]
        for common in (1, 7, 8, 9, 10, 31, 60):
            output = generate(llm, {"prefix": handle, "prompt_token_ids": [*text[:common], *tail]}, greedy(2))
            start = max(0, common - WINDOW) // 2 * 2
            assert output.num_cached_tokens == start
            assert output.prompt_token_ids == [*text[:common], *tail]
            if start == 0:  # nothing reused: the exact model
                assert (
                    output.outputs[0].logprobs == generate(llm, [*text[:common], *tail], greedy(2)).outputs[0].logprobs
                )
        with llm.capture("layers.0.streams") as tap:
            output = generate(llm, {"prefix": handle, "prompt_token_ids": [*text[:41], *tail]}, greedy(1))
        assert tap.positions("layers.0.streams", output.request_id).tolist() == list(range(32, 46))
    assert llm.stats().num_free_blocks == llm.stats().num_blocks
    llm._runtime.engine._scheduler.check()


def test_entries_of_the_prefix_stay_and_the_first_layer_is_exact(llm: LLM) -> None:
    """Shared blocks are not written; in layer 0 only windows that reach before the restart make a difference."""
    text, tail = prompts_of([50, 9], 280)
    first = generate(llm, text, greedy(1))
    handle = llm.save_prefix(first.request_id, allow_replay=True)
    runner = llm._runtime.worker._runner
    assert runner is not None
    (blocks,) = [slice(0, 12)]  # 48 tokens fill the first twelve blocks of a fresh engine
    pools = [cache for kind in ("main", "index") for cache in getattr(runner._caches, kind).values()]
    before = [cache.data[blocks].clone() for cache in pools]
    assert all(int(torch.count_nonzero(data)) for data in before)
    prompt, name = [*text, *tail], "layers.0.attn.out"
    with llm.capture(name) as tap:
        exact = generate(llm, prompt, greedy(1))
        output = generate(llm, {"prefix": handle, "prompt_token_ids": prompt}, greedy(1))
    assert all(torch.equal(cache.data[blocks], data) for cache, data in zip(pools, before, strict=True))
    positions = tap.positions(name, output.request_id)
    assert positions[0] == 42
    mine, theirs = tap.tensor(name, output.request_id), tap.tensor(name, exact.request_id)[42:]
    assert (mine == theirs).all(dim=1).tolist() == [False] * (WINDOW - 1) + [True] * (len(mine) - WINDOW + 1)


@pytest.mark.parametrize("yoco", ["off", "compact"])
def test_the_result_depends_on_the_cut_alone(yoco: str, random_model: Path) -> None:
    """Chunks, drafts, choices, neighbours and preemptions change nothing on a prefix either."""
    text, tail = prompts_of([50, 9], 280)
    prompts = [[*text[:cut], *tail] for cut in (30, 49, 43)]
    kinds: list[dict[str, Any]] = [{"n": 2, "temperature": 0.8, "seed": 1}, {"temperature": 0}, {"temperature": 0}]
    params = [SamplingParams(max_tokens=8, ignore_eos=True, logprobs=1, **kind) for kind in kinds]
    options: dict[str, Any] = {**BASE, "yoco": {"mode": yoco, "keep_tokens": 12}}
    results, block_bytes = [], 0
    for tight in (False, True):
        if tight:
            drafts = {"speculative": {"num_drafts": 3}}
            options |= {"max_prefill_chunk": 5, "kv_cache_bytes": 26 * block_bytes, **drafts}
        else:
            options["speculative"] = "off"
        with poisoned(random_model, **options) as llm:
            block_bytes = llm._runtime.worker.memory_plan.block_bytes
            handle = llm.save_prefix(generate(llm, text, greedy(1)).request_id, allow_replay=True)
            requests = [{"prefix": handle, "prompt_token_ids": prompt} for prompt in prompts]
            outputs = llm.generate(requests, params, use_tqdm=False)
            handle.close()
            llm._runtime.engine._scheduler.check()
            assert (llm.stats().num_preemptions > 0) == tight
            assert all(output.error is None and output.num_cached_tokens > 0 for output in outputs)
            results.append([[(c.token_ids, c.logprobs) for c in output.outputs] for output in outputs])
    assert results[1] == results[0]


@pytest.mark.parametrize("keep", [10, 18])
def test_mask_and_compact_agree_on_a_prefix(keep: int, random_model: Path) -> None:
    """Also where the restart lies behind the first kept token, by less than a window: windows begin at the restart."""
    text, tail = prompts_of([33, 5], 280)
    results = []
    for mode, chunk in (("mask", 160), ("compact", 3)):
        yoco = {"mode": mode, "keep_tokens": keep}
        with poisoned(random_model, yoco=yoco, max_prefill_chunk=chunk, speculative="off", **BASE) as llm:
            handle = llm.save_prefix(generate(llm, text, greedy(1)).request_id, allow_replay=True)
            requests = [{"prefix": handle, "prompt_token_ids": [*text[:cut], *tail]} for cut in (11, 32, 33)]
            outputs = llm.generate(requests, greedy(3), use_tqdm=False)
            assert [output.error for output in outputs] == [None] * 3
            results.append([(output.num_cached_tokens, output.outputs[0].logprobs) for output in outputs])
    assert results[0] == results[1]
    assert [num_cached for num_cached, _ in results[0]] == [2, 24, 24]


def test_what_is_refused(llm: LLM, random_model: Path) -> None:
    text = prompts_of([30], 280)[0]
    first = generate(llm, text, greedy(1))
    with pytest.raises(UnsupportedFeatureError, match="allow_replay=True"):
        llm.save_prefix(first.request_id)
    with pytest.raises(RequestError, match="'nobody' is not known"):
        llm.save_prefix("nobody", allow_replay=True)
    handle = llm.save_prefix(first.request_id, allow_replay=True)

    def error_of(prompt: Any, **params: Any) -> Any:
        (output,) = llm.generate([prompt], SamplingParams(max_tokens=1, **params), use_tqdm=False)
        return output.error

    assert error_of({"prefix": handle, "prompt_token_ids": text}, prompt_logprobs=1).code == "prefix_without_scores"
    assert error_of({"prefix": 3, "prompt_token_ids": text}).code == "invalid_prompt"
    assert error_of({"prefix": None, "prompt_token_ids": text}) is None
    assert error_of({"prefix": handle}).code == "invalid_prompt"
    with LLM(random_model, **BASE) as other:
        (output,) = other.generate([{"prefix": handle, "prompt_token_ids": text}], greedy(1), use_tqdm=False)
        assert output.error.code == "prefix_not_found" and "another LLM" in output.error.message
    with pytest.raises(RequestError, match="tokens of a saved prefix are not computed again"):
        llm.score([{"prefix": handle, "prompt_token_ids": text}], [[5]])
    assert len(llm.score([{"prefix": None, "prompt_token_ids": text}], [[5]])) == 1
    with pytest.raises(TypeError, match="not a int"):
        llm.save_prefix(3, allow_replay=True)  # type: ignore[arg-type]
    late = llm.generate_iter([{"prefix": handle, "prompt_token_ids": text}], greedy(1))
    handle.close()
    error = next(late).error
    assert error is not None and error.code == "prefix_not_found" and "closed before the request began" in error.message
    handle.close()
    assert "was closed" in error_of({"prefix": handle, "prompt_token_ids": text}).message


def test_a_stream_can_be_saved_while_it_runs(llm: LLM) -> None:
    text = prompts_of([24], 280)[0]
    stream = llm.stream([text], greedy(12), request_ids=["live"])
    tokens = [token for _ in range(3) for token in next(stream).token_ids]
    handle = llm.save_prefix("live", allow_replay=True)
    assert handle.token_ids.tolist() == text + tokens[:2] and handle.num_tokens == 26
    rest = [token for delta in stream for token in delta.token_ids]
    assert tokens + rest == generate(llm, text, greedy(12)).outputs[0].token_ids
    assert generate(llm, {"prefix": handle, "prompt_token_ids": text + tokens}, greedy(1)).num_cached_tokens == 18


def test_an_aborted_request_cannot_be_saved(llm: LLM) -> None:
    stream = llm.stream([prompts_of([24], 280)[0]], greedy(12), request_ids=["live"])
    next(stream)
    llm.abort("live")
    assert [delta.finish_reason for delta in stream][-1] == "abort"
    with pytest.raises(RequestError, match="'live' cannot be saved.*was aborted"):
        llm.save_prefix("live", allow_replay=True)


def test_noise_and_any_mapping(llm: LLM) -> None:
    """Random numbers are keyed by the whole prompt: at a temperature where only they count, the text is the same."""
    text, tail = prompts_of([40, 5], 280)
    params = SamplingParams(temperature=1e5, seed=3, max_tokens=6, ignore_eos=True)
    handle = llm.save_prefix(generate(llm, text, greedy(1)).request_id, allow_replay=True)
    output = generate(llm, MappingProxyType({"prefix": handle, "prompt_token_ids": [*text, *tail]}), params)
    assert output.num_cached_tokens == 32
    assert output.outputs[0].token_ids == generate(llm, [*text, *tail], params).outputs[0].token_ids
    assert output.outputs[0].token_ids != generate(llm, tail, params).outputs[0].token_ids


def test_prefixes_that_hold_the_cache_are_named(random_model: Path) -> None:
    with LLM(random_model, speculative="off", **BASE) as llm:
        block_bytes = llm._runtime.worker.memory_plan.block_bytes
    with LLM(random_model, speculative="off", kv_cache_bytes=20 * block_bytes, **BASE) as llm:
        text, other = prompts_of([40, 60], 280)
        handle = llm.save_prefix(generate(llm, text, greedy(1)).request_id, allow_replay=True)
        (output,) = llm.generate([other], greedy(1), use_tqdm=False)
        assert output.error is not None and output.error.code == "capacity_exceeded"
        assert "saved prefixes hold 10 blocks: close some" in output.error.message
        cut = generate(llm, other[:20], greedy(60))
        assert cut.outputs[0].stop_reason == "cache_capacity" and len(cut.outputs[0].token_ids) == 21
        handle.close()
        assert len(generate(llm, other, greedy(2)).outputs[0].token_ids) == 2


@pytest.mark.parametrize("overlap", [False, True])
def test_a_broken_first_step_on_a_prefix_is_computed_again(
    random_model: Path, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is in its rings yet, so another call's broken step does not end it."""
    text, tail = prompts_of([40, 5], 280)
    with LLM(random_model, overlap=overlap, speculative="off", max_num_batched_tokens=8, **BASE) as llm:
        handle = llm.save_prefix(generate(llm, text, greedy(1)).request_id, allow_replay=True)
        prompt = {"prefix": handle, "prompt_token_ids": [*text, *tail]}
        wanted = generate(llm, prompt, greedy(3)).outputs[0].token_ids
        stream = llm.stream([text[:8], prompt], greedy(3))
        deltas = [next(stream)]
        with monkeypatch.context() as patch:
            patch.setattr(llm._runtime.worker, "launch_forward", lambda plan: 1 // 0)
            with pytest.raises(ZeroDivisionError):
                llm.generate([[5]], greedy(1), use_tqdm=False)
        deltas += stream
        assert all(delta.error is None for delta in deltas)
        assert [token for delta in deltas if delta.prompt_index == 1 for token in delta.token_ids] == wanted


def test_text_prompts_on_the_bundled_model_stay_close() -> None:
    """A look-up far behind the window is still found on a prefix."""
    words = ["plum", "bear", "heart", "dream", "horse", "mouth", "tower", "bell", "snow", "ring", "desk", "coin"]
    lines = [f"{one}: {other}\n" for one, other in zip(words * 2, [*words[5:], *words, *words[:5]], strict=True)]
    story = "<｜begin▁of▁sentence｜><｜User｜>Here is a list of words.\n" + "".join(lines)
    ask = "What is the word for tower?<｜Assistant｜></think>"
    with LLM(max_model_len=512, max_num_seqs=2) as llm:
        params = SamplingParams(temperature=0, max_tokens=4, logprobs=1)
        exact = generate(llm, story + ask, params)
        handle = llm.save_prefix(generate(llm, story, greedy(1)).request_id, allow_replay=True)
        output = generate(llm, {"prefix": handle, "prompt": story + ask}, params)
    assert output.num_cached_tokens >= 32
    difference = np.abs(np.array(output.outputs[0].logprobs.logprobs) - np.array(exact.outputs[0].logprobs.logprobs))
    assert output.outputs[0].token_ids == exact.outputs[0].token_ids and difference.max() < 1
