"""Outputs of experts added on a GPU, against the reference op."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.moe.random_experts import fresh_generator
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("dim", [32, 40, 160, 5120])
def test_the_same_bits(device: torch.device, dim: int, dtype: torch.dtype) -> None:
    from deepinfer.ops.cuda.sum_experts import sum_experts

    generator = fresh_generator(device)
    for num_rows, top_k in ((0, 2), (1, 1), (3, 6), (300, 2)):
        routed = torch.randn(num_rows, top_k, dim, generator=generator, device=device).to(dtype)
        shared = torch.randn(num_rows, dim, generator=generator, device=device).to(dtype)
        with poisoned_memory():
            got = sum_experts(routed, shared)
        assert torch.equal(got, reference.sum_experts(routed, shared)), f"T {num_rows}, {generator.initial_seed()}"
