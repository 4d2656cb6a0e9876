"""One full prefill, prefill in chunks and one-token decoding from any split point give the same logits, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.golden_case import GOLDEN, logprob_matrix
from tests.support.random_config import random_config
from tests.support.tiny_config import tiny_config

LENGTH = 72
CHUNKS = (1, 2, 3, 5, 7, 8, 16, 64)


def tokens_for(vocab_size: int, length: int = LENGTH) -> list[int]:
    return np.random.default_rng(7).integers(3, vocab_size, length).tolist()


def full_prefill(llm: LLM, tokens: list[int]) -> torch.Tensor:
    """Log-probabilities [len - 1, vocab] of every position from one prefill."""
    params = SamplingParams(temperature=0, max_tokens=0, prompt_logprobs=-1)
    (output,) = llm.generate([tokens], params, use_tqdm=False)
    assert output.prompt_logprobs is not None, output.error
    return torch.from_numpy(np.stack([row.row for row in output.prompt_logprobs if row is not None]))


def decode_from(llm: LLM, tokens: list[int], splits: list[int]) -> None:
    """Feed the rest of the tokens one by one from every split point and compare with a full prefill."""
    expected = full_prefill(llm, tokens)
    params = [
        SamplingParams(
            temperature=0,
            max_tokens=len(tokens) - split,
            golden_token_ids=tokens[split:],
            ignore_eos=True,
            logprobs=-1,
            prompt_logprobs=-1,
        )
        for split in splits
    ]
    outputs = llm.generate([tokens[:split] for split in splits], params, use_tqdm=False)
    for split, output in zip(splits, outputs, strict=True):
        assert output.error is None
        got = logprob_matrix(output, expected.shape[1])
        assert got.shape == expected.shape
        assert torch.equal(got, expected), f"split {split}: differs by {(got - expected).abs().max()}"


def chunked(path: Path, tokens: list[int], chunk: int, numerics: str, block_size: int = 128) -> torch.Tensor:
    with LLM(
        path,
        numerics=numerics,
        max_prefill_chunk=chunk,
        max_num_seqs=2,
        max_model_len=len(tokens) + 8,
        block_size=block_size,
    ) as llm:
        return full_prefill(llm, tokens)


@pytest.fixture(scope="module")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    write_random_checkpoint(tiny_config(), path, seed=3)
    return path


@pytest.mark.parametrize("numerics", ["fp32", "official"])
def test_decode_from_split_points(tiny_checkpoint: Path, numerics: str) -> None:
    with LLM(tiny_checkpoint, numerics=numerics, max_num_seqs=32, max_model_len=128, block_size=4) as llm:
        decode_from(llm, tokens_for(288), [1, 2, 7, 8, 9, 16, 17, 33, 40, 70, 71])


@pytest.mark.parametrize(("chunk", "block_size"), [(1, 4), (3, 8), (8, 2), (64, 4)])
def test_case_18_chunked_prefill(tiny_checkpoint: Path, chunk: int, block_size: int) -> None:
    tokens = tokens_for(288)
    whole = chunked(tiny_checkpoint, tokens, LENGTH, "fp32")
    assert torch.equal(chunked(tiny_checkpoint, tokens, chunk, "fp32", block_size), whole)


@pytest.mark.parametrize("seed", range(4))
def test_random_configs(seed: int, tmp_path: Path) -> None:
    config = random_config(seed)
    write_random_checkpoint(config, tmp_path, seed=seed)
    tokens = tokens_for(288, 50)
    with LLM(tmp_path, numerics="fp32", max_num_seqs=16, max_model_len=64, block_size=4) as llm:
        decode_from(llm, tokens, [1, 2, 5, 13, 28, 49])
        whole = full_prefill(llm, tokens)
    assert torch.equal(chunked(tmp_path, tokens, 5, "fp32", 2), whole)


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["fp32", "fp32-quant", "official"])
@pytest.mark.parametrize("name", ["tiny", "nano-s1", "bare-s4", "pair-calm-s2"])
def test_whole_matrix(name: str, numerics: str, tiny_checkpoint: Path) -> None:
    """Every split point and every chunk size."""
    path = tiny_checkpoint if name == "tiny" else GOLDEN / name
    tokens = tokens_for(288, 150)
    with LLM(path, numerics=numerics, max_num_seqs=64, max_model_len=256) as llm:
        decode_from(llm, tokens, list(range(1, 150)))
        whole = full_prefill(llm, tokens)
    for chunk in CHUNKS:
        for block_size in (2, 8, 128):
            assert torch.equal(chunked(path, tokens, chunk, numerics, block_size), whole), (chunk, block_size)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 60))
def test_many_random_configs(seed: int, tmp_path: Path) -> None:
    test_random_configs(seed, tmp_path)
