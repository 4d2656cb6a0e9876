"""Experts on a GPU against the reference op on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.moe.random_experts import RandomExperts, fresh_generator, random_choice, random_experts
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

LIMIT = 10.0
MINI = (16, 2, 256, 192)  # experts, chosen, width, hidden width
DRAFT = (8, 2, 256, 192)
ODD = (5, 3, 160, 96)  # widths that no tile divides
WIDE = (24, 6, 5120, 2304)
WIDE_DRAFT = (24, 3, 5120, 2304)
ROWS = (1, 2, 3, 5, 8, 9, 17, 33, 64, 65, 129, 300)


def run(device, x, ids, weights, experts: RandomExperts, *, invariant=False):
    from deepinfer.ops.cuda.moe import moe

    with poisoned_memory():
        return moe(
            invariant,
            x,
            ids,
            weights,
            *experts.routed,
            experts.shared,
            limit=LIMIT,
            quantize=True,
            act_dtype=torch.bfloat16,
        )


def expected(x, ids, weights, experts: RandomExperts):
    return reference.moe(
        x, ids, weights, *experts.routed, experts.shared, limit=LIMIT, quantize=True, act_dtype=torch.bfloat16
    )


def random_rows(num_rows, dim, top_k, generator):
    x = torch.randn(num_rows, dim, generator=generator, device=generator.device).to(torch.bfloat16)
    weights = torch.rand(num_rows, top_k, generator=generator, device=generator.device) + 0.1
    return x, weights


def assert_close(got, want, what):
    """The usual row is within 3e-3 of the reference's norm; in a few, a hidden code has moved by a step (its sums were
    added in another order), which is up to 3e-2 of a narrow row. A wrong tile, scale or expert is far beyond either."""
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.shape} {got.dtype}"
    got, want = got.double(), want.double()
    assert got.isfinite().all(), f"{what}: not finite first at {(~got.isfinite()).nonzero()[0].tolist()}"
    errors = (got - want).norm(dim=1) / want.norm(dim=1)
    far = divmod((got - want).abs().argmax().item(), got.shape[1])
    place = f"worst row {int(errors.argmax())} ({errors.max().item():.2e}), worst element {far}"
    wrong = int((errors > 3e-3).sum())
    assert errors.max() <= 3e-2 and wrong <= 1 + len(errors) // 20, f"{what}: {wrong} rows beyond 3e-3; {place}"


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("size", [MINI, DRAFT, ODD])
def test_rows(device, size, invariant):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in ROWS:
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        got = run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert_close(got, expected(x, ids, weights, experts), what)
        for _ in range(3):
            again = run(device, x, ids, weights, experts, invariant=invariant)
            assert torch.equal(again, got), f"{what}: moved by {(again.float() - got.float()).abs().max().item()}"


@pytest.mark.parametrize("size", [WIDE, WIDE_DRAFT])
def test_wide_rows(device, size):
    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows, invariant in ((1, False), (4, False), (9, False), (61, False), (700, False), (61, True)):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        got = run(device, x, ids, weights, experts, invariant=invariant)
        what = f"T {num_rows}, size {size}, invariant {invariant}, seed {generator.initial_seed()}"
        assert_close(got, expected(x, ids, weights, experts), what)
        assert torch.equal(run(device, x, ids, weights, experts, invariant=invariant), got), f"{what}: moved"


def test_all_experts_of_the_full_model(device):
    generator = fresh_generator(device)
    experts = random_experts(384, 5120, 2304, generator)
    for num_rows in (1, 3):
        x, weights = random_rows(num_rows, 5120, 6, generator)
        ids = random_choice(num_rows, 384, 6, generator)
        ids[0, 0] = 383
        got = run(device, x, ids, weights, experts)
        assert_close(got, expected(x, ids, weights, experts), f"T {num_rows}, seed {generator.initial_seed()}")


@pytest.mark.parametrize("num_rows", [7, 70])
def test_all_rows_to_the_same_experts(device, num_rows):
    """Most experts have no rows, and two have all of them."""
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(num_rows, dim, top_k, generator)
    ids = torch.tensor([[15, 3]], device=device).expand(num_rows, 2).contiguous()
    for invariant in (False, True):
        got = run(device, x, ids, weights, experts, invariant=invariant)
        assert_close(got, expected(x, ids, weights, experts), f"invariant {invariant}")


def test_no_rows(device):
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(0, dim, top_k, generator)
    got = run(device, x, torch.empty(0, top_k, dtype=torch.int64, device=device), weights, experts)
    assert got.shape == (0, dim) and got.dtype is torch.bfloat16


def test_rows_alone_and_together(device):
    """batch_invariant: the bits of a row do not depend on its company."""
    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    x, weights = random_rows(70, dim, top_k, generator)
    ids = random_choice(70, num_experts, top_k, generator)
    together = run(device, x, ids, weights, experts, invariant=True)
    for row in (0, 1, 37, 69):
        part = slice(row, row + 1)
        alone = run(device, x[part], ids[part], weights[part], experts, invariant=True)
        assert torch.equal(alone[0], together[row]), f"row {row}"


def test_in_a_graph(device):
    """Replays with other rows and other experts: nothing depends on host values of the capture."""
    from deepinfer.ops.cuda.moe import moe

    num_experts, top_k, dim, hidden_dim = MINI
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    for num_rows in (5, 40):
        x, weights = random_rows(num_rows, dim, top_k, generator)
        ids = random_choice(num_rows, num_experts, top_k, generator)
        arguments = {"limit": LIMIT, "quantize": True, "act_dtype": torch.bfloat16}
        moe(False, x, ids, weights, *experts.routed, experts.shared, **arguments)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = moe(False, x, ids, weights, *experts.routed, experts.shared, **arguments)
        for _ in range(3):
            x.copy_(torch.randn(num_rows, dim, generator=generator, device=device))
            ids.copy_(random_choice(num_rows, num_experts, top_k, generator))
            graph.replay()
            assert_close(out, expected(x, ids, weights, experts), f"T {num_rows}, seed {generator.initial_seed()}")
