"""Hyper-connections: mixing, reading, writing."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import Ops
from deepinfer.ops.reference.sinkhorn import sinkhorn
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


def sinkhorn_model(a: torch.Tensor, iters: int, eps: float) -> torch.Tensor:
    a = torch.softmax(a.double(), dim=-1) + eps
    a = a / (a.sum(-2, keepdim=True) + eps)
    for _ in range(iters - 1):
        a = a / (a.sum(-1, keepdim=True) + eps)
        a = a / (a.sum(-2, keepdim=True) + eps)
    return a


def test_published_sinkhorn():
    i, j = torch.arange(4)[:, None], torch.arange(4)
    a = 0.1 * ((5 * i + 3 * j) % 7) - 0.3
    got = sinkhorn((a - a.amax(-1, keepdim=True)).exp()[None], iters=20, eps=1e-6)[0]
    want = torch.tensor(
        [
            [0.196931, 0.236247, 0.330575, 0.236247],
            [0.330575, 0.196931, 0.275562, 0.196931],
            [0.236247, 0.283411, 0.196931, 0.283411],
            [0.236247, 0.283411, 0.196931, 0.283411],
        ]
    )
    torch.testing.assert_close(got, want, atol=6e-7, rtol=0)


@pytest.mark.parametrize("rows", [0, 1, 17])
@pytest.mark.parametrize(("size", "dim"), [(4, 32), (4, 50), (2, 16), (3, 20), (1, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mix(ops: Ops, rows: int, size: int, dim: int, dtype: torch.dtype):
    streams = normal(rows, size, dim, dtype=dtype)
    count = size * (size + 2)
    fn, base, scale = normal(count, size * dim, seed=1) * 0.2, normal(count, seed=2), torch.tensor([0.5, 0.7, 0.9])
    pre, post, comb = ops.hc_mix(streams, fn, base, scale, sinkhorn_iters=20, eps=1e-6, norm_eps=1e-20)
    f = streams.double().flatten(1)
    m = f @ fn.double().T / (f.square().mean(1, keepdim=True) + 1e-20).sqrt()
    b = base.double()
    assert_close(pre, torch.sigmoid(m[:, :size] * 0.5 + b[:size]) + 1e-6, "hc_mix")
    assert_close(post, 2 * torch.sigmoid(m[:, size : 2 * size] * 0.7 + b[size : 2 * size]), "hc_mix")
    a = (m[:, 2 * size :] * 0.9 + b[2 * size :]).view(-1, size, size)
    assert_close(comb, sinkhorn_model(a, 20, 1e-6), "hc_mix")
    assert bool(comb.isfinite().all())


@pytest.mark.parametrize("rows", [0, 1, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_read_and_write(ops: Ops, rows: int, dtype: torch.dtype):
    streams, out = normal(rows, 4, 33, dtype=dtype), normal(rows, 33, seed=1, dtype=dtype)
    pre, post, comb = normal(rows, 4, seed=2), normal(rows, 4, seed=3), normal(rows, 4, 4, seed=4)
    read = ops.hc_read(streams, pre, torch.float32)
    assert_close(read, torch.einsum("ti,tid->td", pre.double(), streams.double()), "hc_read")
    assert torch.equal(ops.hc_read(streams, pre, torch.bfloat16), read.to(torch.bfloat16))
    got = ops.hc_write(streams, out, post, comb)
    want = torch.einsum("tij,tid->tjd", comb.double(), streams.double())  # the first index is contracted
    want = want + post.double()[:, :, None] * out.double()[:, None]
    assert got.dtype == dtype
    assert_close(got, want, "hc_write" if dtype == torch.float32 else "bf16")
