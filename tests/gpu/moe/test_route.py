"""The router on a GPU against the reference op on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.moe.random_experts import fresh_generator
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

SIZES = [(16, 2, 256), (8, 2, 256), (384, 6, 5120), (128, 3, 5120), (33, 5, 96), (4, 4, 64)]  # experts, chosen, width
ROWS = (0, 1, 3, 8, 9, 16, 32, 33, 64, 65, 257, 512, 513)
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


@pytest.mark.parametrize("size", SIZES)
def test_few_rows_alone_and_together(device, size):
    """All forms up to 512 rows add in one order."""
    num_experts, top_k, dim = size
    generator = fresh_generator(device)
    gate = (torch.randn(num_experts, dim, generator=generator, device=device) * dim**-0.5).to(torch.bfloat16)
    bias = torch.randn(num_experts, generator=generator, device=device) * 0.1
    x = torch.randn(300, dim, generator=generator, device=device).to(torch.bfloat16)
    together = run(x, gate, bias, top_k, False)
    for first, count in ((0, 1), (299, 1), (5, 8), (40, 16), (100, 27), (236, 64)):
        part = run(x[first : first + count], gate, bias, top_k, False)
        for found, want in ((part.ids, together.ids), (part.weights, together.weights), (part.margin, together.margin)):
            assert torch.equal(found, want[first : first + count]), f"rows {first} to {first + count}, size {size}"


def test_scores_without_a_number(device):
    """Rows of NaN choose ids that exist, and leave the others as they are."""
    generator = fresh_generator(device)
    gate = torch.randn(384, 256, generator=generator, device=device).to(torch.bfloat16)
    bias = torch.zeros(384, device=device)
    for num_rows in (3, 600):
        x = torch.randn(num_rows, 256, generator=generator, device=device).to(torch.bfloat16)
        want = run(x, gate, bias, 6, False)
        x[1, 17] = torch.nan
        got = run(x, gate, bias, 6, False)
        assert bool(((got.ids >= 0) & (got.ids < 384)).all())
        others = torch.arange(num_rows, device=device) != 1
        assert torch.equal(got.ids[others], want.ids[others]) and torch.equal(got.weights[others], want.weights[others])
