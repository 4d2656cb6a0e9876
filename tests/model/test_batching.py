"""Many requests of mixed length in a cache so small that preemption happens, against each request alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.golden_case import GOLDEN
from tests.support.tiny_config import tiny_config


def mixed_prompts(num: int, vocab_size: int, longest: int) -> list[list[int]]:
    rng = np.random.default_rng(11)
    return [rng.integers(3, vocab_size, int(length)).tolist() for length in rng.integers(1, longest, num)]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_64_requests_with_preemption_equal_each_alone(every: int) -> None:
    """The suite holds every fourth request against a run of its own, the slow form all of them."""
    prompts = mixed_prompts(64, 500, 70)
    params = [SamplingParams(temperature=0, max_tokens=6 + i % 17, ignore_eos=True, logprobs=2) for i in range(64)]
    block_bytes = 8 * (64 * 4 + 32 * 4) * 3 // 2
    with LLM(
        GOLDEN / "nano-s1",
        numerics="fp32",
        max_model_len=128,
        max_num_seqs=24,
        max_num_batched_tokens=96,
        block_size=8,
        kv_cache_bytes=60 * block_bytes,
    ) as llm:
        together = llm.generate(prompts, params, use_tqdm=False)
        assert llm.stats().num_preemptions > 0
    with LLM(GOLDEN / "nano-s1", numerics="fp32", max_model_len=128, max_num_seqs=1) as llm:
        alone = [
            llm.generate(prompt, param, use_tqdm=False)[0]
            for prompt, param in zip(prompts[::every], params[::every], strict=True)
        ]
    assert all(output.error is None for output in together)
    for one, other in zip(together[::every], alone, strict=True):
        assert one.outputs[0].token_ids == other.outputs[0].token_ids
        assert one.outputs[0].logprobs == other.outputs[0].logprobs


@pytest.mark.parametrize("kv_cache_dtype", ["fp4", "fp8", "float32"])
def test_cache_formats_do_not_depend_on_the_batch(kv_cache_dtype: str, tmp_path: Path) -> None:
    """Every cache format of the quantizing modes: batch equals alone; float32 storage holds what fp4 rounds to."""
    write_random_checkpoint(tiny_config(), tmp_path, seed=5)
    prompts = mixed_prompts(9, 288, 40)
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    options = {"max_model_len": 64, "kv_cache_dtype": kv_cache_dtype}
    with LLM(tmp_path, max_num_seqs=9, **options) as llm:
        together = [output.outputs[0].token_ids for output in llm.generate(prompts, params, use_tqdm=False)]
        alone = [llm.generate(prompt, params, use_tqdm=False)[0].outputs[0].token_ids for prompt in prompts]
    assert together == alone
    if kv_cache_dtype == "float32":
        with LLM(tmp_path, max_num_seqs=9, max_model_len=64, kv_cache_dtype="fp4") as llm:
            packed = [output.outputs[0].token_ids for output in llm.generate(prompts, params, use_tqdm=False)]
        assert packed == together
