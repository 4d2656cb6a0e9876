"""A closed engine leaves the GPU's memory to others."""

from __future__ import annotations

from pathlib import Path

import torch

from deepinfer import LLM, SamplingParams
from tests.gpu.slice_model import write_slice

ROUNDING = 2**28  # the driver's own, and workspaces of libraries, which live as long as the process


def test_memory_is_free_again(device: torch.device, tmp_path: Path) -> None:
    """Weights, caches, graphs and what torch had kept for later."""
    directory = write_slice(tmp_path, n_routed_experts=32, dspark_n_routed_experts=16)
    free = []
    for _ in range(2):
        with LLM(directory, load_format="dummy", device="cuda", max_model_len=4096, kv_cache_bytes=2**31) as llm:
            llm.generate([[5, 6]], SamplingParams(temperature=0, max_tokens=12, ignore_eos=True), use_tqdm=False)
            taken = torch.cuda.mem_get_info(device)[0]
        free.append(torch.cuda.mem_get_info(device)[0])
        assert free[-1] > taken + 2**31
    assert abs(free[1] - free[0]) < ROUNDING
