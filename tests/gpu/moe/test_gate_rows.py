"""The gated activation of whole rows on a GPU, against the reference op."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops.reference.gated_hidden import gated_hidden
from tests.gpu.moe.random_experts import fresh_generator
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

LIMIT = 2.0


@pytest.mark.parametrize("num_rows", [0, 1, 7, 300])
@pytest.mark.parametrize("dim", [32, 96, 2304])
def test_a_bf16_step_at_most(device: torch.device, num_rows: int, dim: int) -> None:
    """Gates and ups on both sides of the limit, and NaN and infinities where the reference has them."""
    from tilelang_ops.moe.gate_rows import gate_rows

    generator = fresh_generator(device)
    gate, up = (
        (3 * torch.randn(num_rows, dim, generator=generator, device=device)).to(torch.bfloat16) for _ in range(2)
    )
    if num_rows > 1:
        gate[1, :4] = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
        up[1, 3] = float("nan")
    with poisoned_memory():
        got = gate_rows(gate, up, LIMIT)
    want = gated_hidden(gate, up, None, limit=LIMIT, quantize=False, act_dtype=torch.bfloat16).to(torch.bfloat16)
    steps = (got.view(torch.int16).int() - want.view(torch.int16).int()).abs()
    same = (got.isnan() & want.isnan()) | (steps <= 1)
    assert same.all(), f"T {num_rows}, I {dim}, seed {generator.initial_seed()}: {(~same).nonzero()[0].tolist()}"
    assert (steps[~want.isnan()] == 0).float().mean() > 0.99 or not num_rows
