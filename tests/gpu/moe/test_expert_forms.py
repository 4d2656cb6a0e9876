"""The forms of the experts' kernels for many rows on a GPU: each against the reference op, all with the same bits."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.moe.random_experts import fresh_generator, random_choice, random_experts
from tests.gpu.moe.test_moe import MINI, ODD, WIDE, assert_close, expected, random_rows, run

pytest.importorskip("tilelang")

MEANS = (4, 16, 32, 56, 80, 96, 128, 160)  # rows of an expert; each form is the best for one of them


@pytest.mark.parametrize("size", [MINI, ODD])
def test_each_form_for_many_rows(device, size):
    """Experts with fewer rows than a tile, just as many, one more, and several tiles: the same bits in every form."""
    from tilelang_ops.moe import stream_experts

    _, _, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(16, dim, hidden_dim, generator)
    counts = (0, 1, 24, 25, 49, 80, 81, 96, 97, 112, 113, 152, 153, 300)
    ids = torch.repeat_interleave(torch.arange(len(counts), device=device), torch.tensor(counts, device=device))
    ids = ids[torch.randperm(len(ids), generator=generator, device=device)][:, None]
    x, weights = random_rows(len(ids), dim, 1, generator)
    want = expected(x, ids, weights, experts)
    first = None
    for form in stream_experts._FORMS:
        what = f"form {form.sizes}, size {size}, seed {generator.initial_seed()}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stream_experts, "stream_form", lambda *_, form=form: form)
            got = run(device, x, ids, weights, experts, invariant=True)
            assert_close(got, want, what)
            for _ in range(2):
                assert torch.equal(run(device, x, ids, weights, experts, invariant=True), got), f"{what}: moved"
        first = got if first is None else first
        other = (first != got).any(1)
        assert not other.any(), f"{what}: {int(other.sum())} rows have other bits, first {int(other.int().argmax())}"


@pytest.mark.parametrize(("size", "invariant"), [(MINI, True), (WIDE, False)], ids=["small", "full model's widths"])
def test_steps_that_lead_to_each_form(device, size, invariant):
    """By their means; batch_invariant: the first rows have the same bits in all of them."""
    from tilelang_ops.moe.stream_experts import _FORMS, stream_form

    num_experts, top_k, dim, hidden_dim = size
    generator = fresh_generator(device)
    experts = random_experts(num_experts, dim, hidden_dim, generator)
    steps = [mean * num_experts // top_k for mean in MEANS]
    assert {stream_form(rows * top_k, num_experts) for rows in steps} == set(_FORMS)
    x, weights = random_rows(steps[-1], dim, top_k, generator)
    ids = random_choice(steps[-1], num_experts, top_k, generator)
    want, first = expected(x, ids, weights, experts), None
    for rows in steps:
        step = (device, x[:rows], ids[:rows], weights[:rows], experts)
        got = run(*step, invariant=invariant)
        what = f"T {rows}, size {size}, seed {generator.initial_seed()}"
        assert_close(got, want[:rows], what)
        assert torch.equal(run(*step, invariant=invariant), got), f"{what}: moved"
        first = got if first is None else first
        assert not invariant or torch.equal(got[: len(first)], first), f"{what}: bits depend on the number of rows"
