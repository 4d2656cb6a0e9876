"""The native model of the CPU backend: bit-equal to the components over the same ops; no torch on the decode path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from deepinfer import LLM, SamplingParams
from deepinfer.checkpoint.writer import write_random_checkpoint
from tests.support.golden_case import GOLDEN, logprob_matrix
from tests.support.random_config import random_config
from tests.support.tiny_config import tiny_config

VOCAB = 288
PROMPTS = [list(range(3, 3 + length)) for length in (1, 9, 30, 47)]


def rows_of(llm: LLM, prompts: list[list[int]] = PROMPTS, max_tokens: int = 6) -> list[torch.Tensor]:
    """Log-probabilities of every position, prompt and output."""
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, logprobs=-1, prompt_logprobs=-1)
    outputs = llm.generate(prompts, params, use_tqdm=False)
    assert all(output.error is None for output in outputs), outputs[0].error
    return [logprob_matrix(output, VOCAB) for output in outputs]


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@contextmanager
def engine(path: Path, **options: Any) -> Iterator[LLM]:
    defaults: dict[str, Any] = {"max_model_len": 64, "block_size": 4, "max_num_seqs": 4, "max_prefill_chunk": 11}
    defaults["speculative"] = {"varlen": False}
    with LLM(path, backend="cpu", **(defaults | options)) as llm:
        yield llm


@pytest.mark.parametrize(("seed", "numerics"), [(s, ("official", "fp32-quant", "fp32")[s % 3]) for s in range(12)])
def test_native_equals_components(seed: int, numerics: str, tmp_path: Path) -> None:
    """A research hook makes the engine run the components: nothing but the time changes. Nor do chunks and batches."""
    write_random_checkpoint(random_config(seed), tmp_path, seed=seed)
    with engine(tmp_path, numerics=numerics) as llm:
        native = rows_of(llm)
        with llm.capture("final.hidden"):
            assert same(rows_of(llm), native)
    with engine(tmp_path, numerics=numerics, max_num_seqs=1, max_prefill_chunk=64) as llm:
        assert same(rows_of(llm), native)


@pytest.mark.parametrize(("numerics", "dtype"), [("official", "fp4"), ("fp32-quant", "fp8"), ("official", "float32")])
def test_cache_formats_with_drafts(numerics: str, dtype: str, tmp_path: Path) -> None:
    write_random_checkpoint(tiny_config(dspark_target_layer_ids=[7, 2]), tmp_path, seed=3)
    with engine(tmp_path, numerics=numerics, kv_cache_dtype=dtype) as llm:
        native = rows_of(llm)
        with llm.capture("final.hidden"):
            assert same(rows_of(llm), native)
        assert llm.stats().num_drafts_verified > 0


@pytest.mark.parametrize("mode", ["mask", "compact"])
def test_yoco(mode: str, tmp_path: Path) -> None:
    write_random_checkpoint(tiny_config(), tmp_path, seed=4)
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True, logprobs=-1)
    with engine(tmp_path, numerics="official", yoco=mode) as llm:
        native = llm.generate(PROMPTS, params, use_tqdm=False)
        with llm.capture("final.hidden"):
            hooked = llm.generate(PROMPTS, params, use_tqdm=False)
    for mine, theirs in zip(native, hooked, strict=True):
        assert mine.outputs[0].token_ids == theirs.outputs[0].token_ids
        assert mine.outputs[0].logprobs == theirs.outputs[0].logprobs


def test_threads_and_instruction_sets_give_the_same_bits(tmp_path: Path) -> None:
    write_random_checkpoint(tiny_config(hidden_size=96), tmp_path, seed=5)
    rows = []
    for options in ({"num_threads": 1}, {"num_threads": 2}, {"cpu_isa": "scalar"}, {"cpu_isa": "avx2"}):
        with engine(tmp_path, **options) as llm:
            rows.append(rows_of(llm))
    assert all(same(rows[0], others) for others in rows[1:])


class Dispatches(TorchDispatchMode):
    """Names of the torch operations that run inside."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("speculative", ["off", {"num_drafts": 3}])
def test_decode_steps_call_no_torch(speculative: Any) -> None:
    plain = [
        SamplingParams(temperature=0, max_tokens=20, ignore_eos=True),
        SamplingParams(temperature=0.8, top_p=0.9, top_k=20, min_p=0.01, seed=3, max_tokens=20, ignore_eos=True),
    ]
    counts = []
    with LLM(GOLDEN / "nano-s1", backend="cpu", speculative=speculative, max_model_len=64, max_num_seqs=2) as llm:
        for params in (plain, [params.replace(logprobs=1) for params in plain]):
            streams = [llm.stream([[5, 6, 7]], item) for item in params]
            for stream in streams:
                next(stream)
            with Dispatches() as seen:
                for _ in range(3):
                    for stream in streams:
                        next(stream)
            counts.append(len(seen.names))
            for stream in streams:
                list(stream)
    assert counts[0] == 0 and counts[1] > 0, seen.names
