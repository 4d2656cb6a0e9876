"""Residual streams on a GPU: expand, read, write, mix."""

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.agreement import assert_bits, assert_near, fresh_runs, repeated

pytest.importorskip("tilelang")

EPS = 1e-6
SIZES = [
    (4, 256, 1),
    (4, 256, 1000),
    (4, 5120, 0),
    (4, 5120, 1),
    (4, 5120, 65),
    (4, 5120, 2049),
    (3, 1120, 9),
    (1, 96, 5),
]
both = pytest.mark.parametrize(("size", "dim", "rows"), SIZES)


def normal(generator, *shape):
    return torch.randn(shape, generator=generator, device=generator.device)


@both
def test_expand_embedding(device, size, dim, rows):
    from deepinfer.ops.cuda.expand_embedding import expand_embedding

    for generator in fresh_runs(device):
        table = normal(generator, 999, dim).bfloat16()
        ids = torch.randint(0, 999, (rows,), generator=generator, device=device)
        streams, pre = repeated(lambda ids=ids, table=table: expand_embedding(ids, table, size, torch.bfloat16))
        assert_bits(streams, table[ids][:, None].expand(rows, size, dim), f"streams, seed {generator.initial_seed()}")
        first = torch.arange(size, device=device) == 0
        assert_bits(pre, first.float().expand(rows, size), "pre")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@both
def test_read(device, size, dim, rows, dtype):
    from deepinfer.ops.cuda.hc_read import hc_read

    for generator in fresh_runs(device):
        streams, pre = normal(generator, rows, size, dim).bfloat16(), normal(generator, rows, size).sigmoid()
        found = repeated(lambda s=streams, p=pre: hc_read(s, p, dtype))
        assert_bits(found, reference.hc_read(streams, pre, dtype), f"seed {generator.initial_seed()}")


@both
def test_read_norm(device, size, dim, rows):
    from deepinfer.ops.cuda.hc_read_norm import hc_read_norm

    for generator in fresh_runs(device):
        streams, pre = normal(generator, rows, size, dim).bfloat16(), normal(generator, rows, size).sigmoid()
        weight = (1 + 0.3 * normal(generator, dim)).bfloat16()
        found = repeated(lambda s=streams, p=pre, w=weight: hc_read_norm(s, p, w, EPS, torch.bfloat16))
        read = reference.hc_read(streams, pre, torch.bfloat16)
        want = reference.rms_norm(read, weight, EPS, torch.bfloat16)
        assert_near(found, want, 1e-3, f"seed {generator.initial_seed()}")


@both
def test_write(device, size, dim, rows):
    from deepinfer.ops.cuda.hc_write import hc_write

    for generator in fresh_runs(device):
        streams, out = normal(generator, rows, size, dim).bfloat16(), normal(generator, rows, dim).bfloat16()
        post, comb = 2 * normal(generator, rows, size).sigmoid(), normal(generator, rows, size, size).softmax(-1)
        found = repeated(lambda a=(streams, out, post, comb): hc_write(*a))
        assert_near(found, reference.hc_write(streams, out, post, comb), 1e-3, f"seed {generator.initial_seed()}")


def mixing_inputs(generator, size, dim, rows):
    outputs = size * (size + 2)
    fn = normal(generator, outputs, size * dim) * 2 / (size * dim) ** 0.5
    return normal(generator, rows, size, dim).bfloat16(), fn, normal(generator, outputs), normal(generator, 3).abs()


@both
def test_mix(device, size, dim, rows):
    from deepinfer.ops.cuda.hc_mix import hc_mix

    options = {"sinkhorn_iters": 20, "eps": EPS, "norm_eps": EPS}
    for generator in fresh_runs(device):
        inputs = mixing_inputs(generator, size, dim, rows)
        found = repeated(lambda inputs=inputs: hc_mix(*inputs, **options))
        for name, a, b in zip(("pre", "post", "comb"), found, reference.hc_mix(*inputs, **options), strict=True):
            assert_near(a, b, 3e-5, f"{name}, seed {generator.initial_seed()}")


def step_inputs(generator, size, dim, rows):
    """Operands of `hc_step` with an update."""
    streams, *mixing = mixing_inputs(generator, size, dim, rows)
    pre, post = normal(generator, rows, size).sigmoid(), 2 * normal(generator, rows, size).sigmoid()
    update = (normal(generator, rows, dim).bfloat16(), post, normal(generator, rows, size, size).softmax(-1))
    return streams, pre, update, (1 + 0.3 * normal(generator, dim)).bfloat16(), tuple(mixing)


STEP = {"sinkhorn_iters": 20, "eps": EPS, "norm_eps": EPS, "out_dtype": torch.bfloat16}


@pytest.mark.parametrize("writes", [True, False])
@both
def test_step(device, size, dim, rows, writes):
    """The parts run on the streams that the kernel has written: one bf16 of theirs moves a gate by more than its own
    error."""
    from deepinfer.ops.cuda.hc_step import hc_step

    for generator in fresh_runs(device):
        streams, pre, update, weight, mixing = step_inputs(generator, size, dim, rows)
        update = update if writes else None
        found = repeated(lambda s=streams, p=pre, u=update, w=weight, m=mixing: hc_step(s, p, u, w, m, **STEP))
        label = f"seed {generator.initial_seed()}"
        want = reference.hc_write(streams, *update) if writes else streams
        assert_near(found[0], want, 1e-3 if writes else 0.0, f"streams, {label}")
        _, x, *gates = reference.hc_step(found[0], pre, None, weight, mixing, **STEP)
        assert_near(found[1], x, 1e-3, f"x, {label}")
        for name, a, b in zip(("pre", "post", "comb"), found[2:], gates, strict=True):
            assert_near(a, b, 3e-5, f"{name}, {label}")


def test_a_row_does_not_depend_on_the_others(device):
    """In steps of few and of many rows, whose blocks have other sizes."""
    from deepinfer.ops.cuda.hc_mix import hc_mix
    from deepinfer.ops.cuda.hc_step import hc_step

    options = {"sinkhorn_iters": 20, "eps": EPS, "norm_eps": EPS}
    for generator in fresh_runs(device):
        streams, pre, update, weight, mixing = step_inputs(generator, 4, 5120, 2200)
        together = (*hc_step(streams, pre, update, weight, mixing, **STEP), *hc_mix(streams, *mixing, **options))
        for first, count in ((0, 1), (7, 1), (2199, 1), (130, 64), (63, 77)):
            part = slice(first, first + count)
            own = tuple(values[part] for values in update)
            alone = (
                *hc_step(streams[part], pre[part], own, weight, mixing, **STEP),
                *hc_mix(streams[part], *mixing, **options),
            )
            for number, (a, b) in enumerate(zip(alone, together, strict=True)):
                assert_bits(a, b[part], f"result {number} of rows {part}, seed {generator.initial_seed()}")
