"""A slice of V4.1-Flash at true layer shapes: loads, decodes, prefills, and every op against the reference."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import deepinfer.engine.runtime as engine_runtime
from deepinfer import LLM, SamplingParams
from deepinfer.ops.selected_backend import SelectedBackend
from tests.gpu.checked_ops import CheckedOps
from tests.gpu.slice_model import write_slice

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LLM, CheckedOps]]:
    """The slice with ops that compare themselves with the reference."""
    kept: list[CheckedOps] = []
    select = engine_runtime.select_backend

    def select_checked(*args: object) -> SelectedBackend:
        chosen = select(*args)
        assert chosen.name == "cuda"
        kept.append(CheckedOps(chosen.ops))
        return SelectedBackend(chosen.name, kept[0].ops, chosen.reason, chosen.rejected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_runtime, "select_backend", select_checked)
        llm = _slice(tmp_path_factory.mktemp("slice"))
    yield llm, kept[0]
    llm.close()


def _slice(directory: Path) -> LLM:
    begin = time.time()
    options = {"max_num_seqs": 64, "max_model_len": 12288, "max_num_batched_tokens": 8192, "kv_cache_bytes": 2**33}
    llm = LLM(write_slice(directory), load_format="dummy", device="cuda", backend="cuda", yoco=None, **options)
    print(f"\nloaded in {time.time() - begin:.1f} s, {torch.cuda.memory_allocated() / 2**30:.1f} GiB")
    return llm


def _prompts(count: int, length: int) -> list[list[int]]:
    rng = np.random.default_rng()
    return [rng.integers(300, 100_000, length).tolist() for _ in range(count)]


@pytest.mark.parametrize(("count", "length"), [(1, 700), (64, 37)])
def test_every_op_equals_the_reference(checked: tuple[LLM, CheckedOps], count: int, length: int) -> None:
    llm, ops = checked
    ops.worst.clear()
    ops.worst_share.clear()
    outputs = llm.generate(_prompts(count, length), GREEDY, use_tqdm=False)
    assert all(output.error is None for output in outputs), [output.error for output in outputs if output.error]
    for found in (ops.worst, ops.worst_share):
        print(f"\n{count} prompts of {length}:", {name: f"{value:.1e}" for name, value in sorted(found.items())})
    assert ops.faults() == []
