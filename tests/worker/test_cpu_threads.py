"""How many threads a forward pass gets, and that the caller's number is back behind every step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from deepinfer import LLM, SamplingParams
from deepinfer.worker.cpu_threads import choose_num_threads, usable_cores
from tests.ops.invariance import threads
from tests.support.golden_case import GOLDEN


def test_the_users_number_wins() -> None:
    assert choose_num_threads(7, hidden_size=64) == choose_num_threads(7, hidden_size=8192) == 7


def test_a_small_model_gets_one_and_a_large_one_what_there_is() -> None:
    with threads(64):
        assert choose_num_threads(None, hidden_size=384) == 1
        assert choose_num_threads(None, hidden_size=4096) == min(4, usable_cores())
    with threads(1):  # OMP_NUM_THREADS=1, a forked child
        assert choose_num_threads(None, hidden_size=4096) == 1


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 10**6),
        ({"cpu.max": "max 100000"}, 10**6),
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "garbage"}, 10**6),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 10**6),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
    ],
)
def test_cores_are_capped_by_the_control_group(files: dict[str, str], most: int, tmp_path: Path) -> None:
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert usable_cores(tmp_path) == min(most, len(os.sched_getaffinity(0)))


def test_a_step_has_its_own_number_and_gives_the_callers_back() -> None:
    seen: list[int] = []

    def look(original: object, *arguments: object) -> object:
        seen.append(torch.get_num_threads())
        return original(*arguments)  # type: ignore[operator]

    with threads(3), LLM(GOLDEN / "nano-s1", numerics="fp32", max_num_seqs=2, max_model_len=32, num_threads=2) as llm:
        assert llm.config.num_threads == 2
        with llm.replace("layers.0.ffn", look):
            for _ in llm.stream([[5]], SamplingParams(max_tokens=2, ignore_eos=True)):
                assert torch.get_num_threads() == 3
    assert set(seen) == {2}
