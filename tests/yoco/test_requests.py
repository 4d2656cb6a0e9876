"""YOCO prefill with everything else a request may meet: drafts, preemption, choices, mixed batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.errors import RequestError
from tests.support.golden_case import GOLDEN
from tests.yoco.runs import assert_same_rows, assert_same_texts, greedy, prompts_of, run

NANO = GOLDEN / "nano-s1"
LENGTHS = [1, 17, 23, 65]
BASE: dict[str, Any] = {"numerics": "fp32", "max_model_len": 160, "block_size": 4}


def test_drafts_change_nothing() -> None:
    """With the same tokens kept, tokens and log-probabilities are those without drafts; both modes draft the same."""
    prompts, keep = prompts_of(LENGTHS, 500), 20
    options: dict[str, Any] = {"max_num_seqs": 8, **BASE}
    off = run(NANO, prompts, greedy(8), yoco={"mode": "compact", "keep_tokens": keep}, speculative="off", **options)
    drafts: dict[str, Any] = {"speculative": {"num_drafts": 3}}
    runs = {
        (mode, chunk): run(
            NANO,
            prompts,
            greedy(8),
            yoco={"mode": mode, "keep_tokens": keep},
            max_prefill_chunk=chunk,
            **options,
            **drafts,
        )
        for mode, chunk in (("compact", 7), ("mask", 160))
    }
    for other in runs.values():
        assert_same_texts(other, off)
        assert other.stats.num_drafts_accepted > 0
    counts = [
        (other.stats.num_drafts_verified, other.stats.num_drafts_accepted, other.stats.num_decode_steps)
        for other in runs.values()
    ]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("speculative", ["off", {"num_drafts": 3}])
def test_a_recompute_gives_the_same_bits(speculative: Any, random_model: Path) -> None:
    prompts = prompts_of([32, 31, 30], 280)
    options: dict[str, Any] = {"yoco": "compact", "speculative": speculative, "max_num_seqs": 3, **BASE}
    calm = run(random_model, prompts, greedy(9), "final.hidden", **options)
    assert calm.stats.num_preemptions == 0
    block_bytes = calm.memory.block_bytes
    tight = run(
        random_model,
        prompts,
        greedy(9),
        "final.hidden",
        kv_cache_bytes=26 * block_bytes,
        max_prefill_chunk=9,
        **options,
    )
    assert tight.stats.num_preemptions > 0
    assert_same_texts(tight, calm)
    assert_same_rows(tight, calm)


def test_choices_of_one_prompt(random_model: Path) -> None:
    """Forks begin on the prompt's caches, also those that have to compute it again."""
    prompts = prompts_of([41, 16], 280)
    params = [SamplingParams(temperature=0.9, seed=i, n=3, max_tokens=5, ignore_eos=True, logprobs=1) for i in range(2)]
    options: dict[str, Any] = {"speculative": {"num_drafts": 2}, **BASE}
    compact = run(random_model, prompts, params, yoco="compact", max_num_seqs=8, max_prefill_chunk=8, **options)
    assert_same_texts(compact, run(random_model, prompts, params, yoco="mask", max_num_seqs=8, **options))
    crowded = run(random_model, prompts, params, yoco="compact", max_num_seqs=2, **options)
    assert_same_texts(crowded, compact)
    assert crowded.stats.num_forked < compact.stats.num_forked


def test_a_batch_changes_nothing(random_model: Path) -> None:
    """Alone, among others, in steps that mix cut and whole prompts, with and without kept rows."""
    prompts = prompts_of(LENGTHS, 280)
    options: dict[str, Any] = {"yoco": "compact", "speculative": "off", **BASE}
    alone = run(random_model, prompts, greedy(3), max_num_seqs=1, **options)
    together = run(
        random_model, prompts, greedy(3), max_num_seqs=8, max_prefill_chunk=11, max_num_batched_tokens=37, **options
    )
    assert_same_texts(together, alone)


@pytest.mark.parametrize("mode", ["mask", "compact"])
def test_scores_of_the_prompt_are_refused_for_their_request_alone(mode: str, random_model: Path) -> None:
    with LLM(random_model, yoco=mode, max_num_seqs=4, max_model_len=64) as llm:
        params = [SamplingParams(max_tokens=2, prompt_logprobs=k) for k in (None, 0)]
        good, bad = llm.generate(prompts_of([20, 5], 280), params, use_tqdm=False)
        assert good.error is None and len(good.outputs[0].token_ids) == 2
        assert bad.error is not None and bad.error.code == "yoco_without_scores" and 'yoco="off"' in bad.error.message
        with pytest.raises(RequestError, match="score: with yoco"):
            llm.score([[5, 6, 7]], [[8]])
