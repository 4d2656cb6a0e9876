"""Several threads: a request's log-probabilities are bit-equal alone and in a batch, and equal those of one thread."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from deepinfer.engine.model_path import bundled_model_path
from tests.model.test_batching import mixed_prompts
from tests.support.golden_case import logprob_matrix
from tests.support.tiny_config import tiny_config


def _checkpoint(name: str, tmp_path: Path) -> Path:
    if name == "bundled":
        return bundled_model_path()
    config = tiny_config(num_attention_heads=6, index_n_heads=6, o_groups=1, o_lora_rank=1, head_dim=64)
    write_random_checkpoint(config, tmp_path, seed=1)
    return tmp_path


@pytest.mark.parametrize(("name", "count"), [("bundled", 4), ("six-heads", 2), ("six-heads", 4)])
def test_alone_equals_batch(name: str, count: int, tmp_path: Path) -> None:
    checkpoint = _checkpoint(name, tmp_path)
    prompts = mixed_prompts(5, 280, 24)
    params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True, logprobs=-1, prompt_logprobs=-1)
    vocab = 4096 if name == "bundled" else 288
    options = {"numerics": "fp32", "max_num_seqs": 5, "max_model_len": 64}

    def run(llm: LLM, prompts: list[list[int]]) -> list[torch.Tensor]:
        return [logprob_matrix(output, vocab) for output in llm.generate(prompts, params, use_tqdm=False)]

    with LLM(checkpoint, num_threads=count, **options) as llm:
        together = run(llm, prompts)
        alone = [run(llm, [prompt])[0] for prompt in prompts]
    with LLM(checkpoint, num_threads=1, **options) as llm:
        single = run(llm, prompts[:1])
    assert all(torch.equal(a, b) for a, b in zip(together, alone, strict=True))
    assert torch.equal(single[0], together[0])
