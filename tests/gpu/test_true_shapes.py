"""A slice of V4.1-Flash at true layer shapes: loads, prefills and decodes, every op beside the reference."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from deepinfer import LLM, SamplingParams
from tests.gpu.checked_ops import CheckedOps, assert_no_faults, checked_engine
from tests.gpu.slice_model import write_slice

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
OPTIONS = {"max_num_seqs": 64, "max_model_len": 12288, "max_num_batched_tokens": 8192, "kv_cache_bytes": 2**33}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LLM, CheckedOps]]:
    begin, directory = time.time(), write_slice(tmp_path_factory.mktemp("slice"))
    with checked_engine(directory, load_format="dummy", **OPTIONS) as engine:
        print(f"\nloaded in {time.time() - begin:.1f} s, {torch.cuda.memory_allocated() / 2**30:.1f} GiB")
        yield engine


@pytest.mark.parametrize(("count", "length"), [(1, 700), (64, 37)])
def test_every_op_equals_the_reference(checked: tuple[LLM, CheckedOps], count: int, length: int) -> None:
    rng = np.random.default_rng()
    prompts = [rng.integers(300, 100_000, length).tolist() for _ in range(count)]
    assert_no_faults(*checked, prompts, GREEDY)
