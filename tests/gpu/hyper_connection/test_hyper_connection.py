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


def test_a_row_does_not_depend_on_the_others(device):
    from deepinfer.ops.cuda.hc_mix import hc_mix

    options = {"sinkhorn_iters": 20, "eps": EPS, "norm_eps": EPS}
    for generator in fresh_runs(device):
        streams, *rest = mixing_inputs(generator, 4, 5120, 77)
        together = hc_mix(streams, *rest, **options)
        for row in (0, 7, 8, 76):
            for all_rows, alone in zip(together, hc_mix(streams[row : row + 1], *rest, **options), strict=True):
                assert_bits(alone, all_rows[row : row + 1], f"row {row}, seed {generator.initial_seed()}")
