"""Engines whose workers the library starts itself, a GPU each: outputs of one engine, and the end of a lost worker."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.errors import ConfigError, WorkerFailedError
from tests.distributed.equal_outputs import ON_DEVICE
from tests.distributed.multigpu.conftest import require_gpus
from tests.distributed.multigpu.wide_ep_cases import SHUFFLED
from tests.distributed.rank_engine import shown

OPTIONS = {"max_model_len": 256, "max_num_seqs": 8, "max_num_batched_tokens": 96, "seed": 7}
TWO = {"data_parallel_size": 2}
WAYS = {
    "replicas": TWO,
    "experts": TWO | {"expert_parallel_size": 2, "engram_parallel_size": 2, "overlap": True} | SHUFFLED,
    "context": {"context_parallel_size": 2, "expert_parallel_size": 2},
}
DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.multigpu)]


def options_on(device: str) -> dict[str, Any]:
    if device == "cuda":
        require_gpus(2)
    return OPTIONS | ON_DEVICE[device]


def outputs_of(llm: LLM) -> list[dict[str, Any]]:
    """Of 24 requests, greedy and sampled, some of several choices."""
    prompts = [[40 + (7 * i + j) % 200 for j in range(1 + 19 * i % 120)] for i in range(24)]
    params = [
        SamplingParams(
            temperature=float(i % 3 > 0),
            seed=i,
            max_tokens=3 + 7 * i % 30,
            n=1 + i % 2,
            logprobs=2,
            ignore_eos=i % 4 > 0,
        )
        for i in range(24)
    ]
    return [shown(output) for output in llm.generate(prompts, params, use_tqdm=False)]


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_those_of_one_engine(device: str) -> None:
    options = options_on(device)
    with LLM(**options) as llm:
        expected = outputs_of(llm)
    for name, sizes in WAYS.items():
        with LLM(**options, **sizes) as llm:
            assert outputs_of(llm) == expected, name
            assert outputs_of(llm) == expected, f"{name}, again"


@pytest.mark.parametrize("device", DEVICES)
def test_a_killed_worker_ends_all(device: str) -> None:
    """The other one waits for it in a collective of the GPU, which never ends."""
    options = options_on(device)
    llm = LLM(**options, **WAYS["experts"])
    outputs_of(llm)
    victim, other = (worker._process for worker in llm._runtime.loop._links.pool.workers)
    threading.Timer(0.3, os.kill, (victim.pid, signal.SIGKILL)).start()
    with pytest.raises(WorkerFailedError, match=r"worker rank 0 failed.* signal 9 \(SIGKILL\)"):
        while True:
            outputs_of(llm)
    assert other.wait(5.0) is not None
    llm.close()
    assert float(torch.ones(2, device=device).sum()) == 2.0  # the first GPU is in order


@pytest.mark.multigpu
def test_more_ranks_than_gpus_are_refused() -> None:
    require_gpus(1)
    with pytest.raises(ConfigError, match="each takes one"):
        LLM(data_parallel_size=torch.cuda.device_count() + 1, device="cuda")
    with pytest.raises(ConfigError, match="a GPU of its own"):
        LLM(data_parallel_size=2, expert_parallel_size=2, device="cuda:0")
