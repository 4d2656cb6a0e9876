"""The router on a GPU against the reference op on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.moe.random_experts import fresh_generator
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

SIZES = [(16, 2, 256), (8, 2, 256), (384, 6, 5120), (128, 3, 5120), (33, 5, 96), (4, 4, 64)]  # experts, chosen, width
ROWS = (0, 1, 3, 32, 33, 64, 65, 257)
CLOSE = 1e-4  # of biased scores near one: differences of summation order, far below any tie that a test makes


def run(x, gate, bias, top_k, invariant, *, normalize=True):
    from deepinfer.ops.cuda.route import route

    with poisoned_memory():
        return route(invariant, x, gate, bias, top_k=top_k, scaling=1.5, normalize=normalize)


def biased_scores(x, gate, bias):
    logits = x.double() @ gate.double().T
    return torch.nn.functional.softplus(logits).sqrt() + bias.double()


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_choice_and_weights(device, size, invariant):
    num_experts, top_k, dim = size
    generator = fresh_generator(device)
    gate = (torch.randn(num_experts, dim, generator=generator, device=device) * dim**-0.5).to(torch.bfloat16)
    bias = torch.randn(num_experts, generator=generator, device=device) * 0.1
    for num_rows in ROWS:
        x = torch.randn(num_rows, dim, generator=generator, device=device).to(torch.bfloat16)
        got = run(x, gate, bias, top_k, invariant)
        want = reference.route(x, gate, bias, top_k=top_k, scaling=1.5, normalize=True)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert got.ids.shape == want.ids.shape and got.ids.dtype is torch.int64, what
        assert bool(((got.ids >= 0) & (got.ids < num_experts)).all()), what
        scores = biased_scores(x, gate, bias)
        gap = (scores.gather(1, got.ids) - scores.gather(1, want.ids)).abs()
        assert gap.numel() == 0 or gap.max() < CLOSE, f"{what}: a choice is worse by {gap.max().item():.2e}"
        same = (got.ids == want.ids).all(1)
        assert same.double().mean() > 0.97 or num_rows < 32, f"{what}: {int((~same).sum())} rows differ"
        torch.testing.assert_close(got.weights[same], want.weights[same], rtol=1e-4, atol=1e-5, msg=what)
        torch.testing.assert_close(got.margin, want.margin, rtol=0, atol=CLOSE, msg=what)
        again = run(x, gate, bias, top_k, invariant)
        assert torch.equal(again.ids, got.ids) and torch.equal(again.weights, got.weights), f"{what}: moved"


def test_ties_take_the_lower_id(device):
    gate = torch.zeros(48, 64, device=device, dtype=torch.bfloat16)
    x = torch.ones(5, 64, device=device, dtype=torch.bfloat16)
    bias = torch.zeros(48, device=device)
    bias[[7, 40]] = 1.0
    for invariant in (False, True):
        got = run(x, gate, bias, 4, invariant, normalize=False)
        assert got.ids.tolist() == [[7, 40, 0, 1]] * 5
        assert torch.equal(got.margin, torch.zeros_like(got.margin))
        assert torch.equal(got.weights, got.weights[:1, :1].expand_as(got.weights))


def test_rows_alone_and_together(device):
    generator = fresh_generator(device)
    gate = torch.randn(16, 256, generator=generator, device=device).to(torch.bfloat16)
    bias = torch.randn(16, generator=generator, device=device)
    x = torch.randn(70, 256, generator=generator, device=device).to(torch.bfloat16)
    together = run(x, gate, bias, 2, True)
    for row in (0, 37, 69):
        alone = run(x[row : row + 1], gate, bias, 2, True)
        assert torch.equal(alone.weights[0], together.weights[row]), f"row {row}"
        assert torch.equal(alone.margin[0], together.margin[row]), f"row {row}"
