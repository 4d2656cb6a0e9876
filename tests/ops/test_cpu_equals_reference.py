"""CPU kernels whose results are those of the reference bit for bit, at odd sizes and on every instruction set."""

from __future__ import annotations

import pytest
import torch

from deepinfer._C import cpu
from deepinfer.ops import PrimitiveOps, reference
from deepinfer.ops.cpu.cpu_ops import cpu_ops
from tests.ops.builders import normal

F32, BF16 = torch.float32, torch.bfloat16


@pytest.fixture(params=["scalar", "avx2", "avx512", "avx512_bf16"])
def native(request: pytest.FixtureRequest) -> PrimitiveOps:
    try:
        return cpu_ops(cpu.Context(2, request.param))
    except ValueError as error:
        pytest.skip(str(error))


def assert_equal(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("inverse", [False, True])
def test_rope(native: PrimitiveOps, dtype: torch.dtype, inverse: bool):
    cos, sin = reference.rope_table(100, 26, None, 9)
    for shape in ((9, 26), (9, 3, 77), (9, 2, 2, 32)):
        x = normal(*shape, dtype=dtype)
        assert_equal(
            native.apply_rope(x, cos, sin, inverse=inverse), reference.apply_rope(x, cos, sin, inverse=inverse)
        )


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize(("size", "dim"), [(4, 50), (1, 16), (3, 33), (8, 20), (16, 7)])
def test_hc_read(native: PrimitiveOps, dtype: torch.dtype, size: int, dim: int):
    streams, pre = normal(20, size, dim, dtype=dtype), normal(20, size, seed=1)
    assert_equal(native.hc_read(streams, pre, dtype), reference.hc_read(streams, pre, dtype))


@pytest.mark.parametrize("count", [1, 15, 16, 33, 384])
@pytest.mark.parametrize("normalize", [False, True])
def test_route(native: PrimitiveOps, count: int, normalize: bool):
    x, gate, bias = normal(30, 16).round(), normal(count, 16, seed=1).round(), normal(count, seed=2).round()
    x[3] = 1e4  # large scores
    x[4] = 0.0  # all logits equal
    for top_k in {1, min(count, 6), count}:
        options = {"top_k": top_k, "scaling": 1.5, "normalize": normalize}
        got, want = native.route(x, gate, bias, **options), reference.route(x, gate, bias, **options)
        assert_equal(got.ids, want.ids)
        assert_equal(got.weights, want.weights)
        assert_equal(got.margin, want.margin)


def test_pool_pairs(native: PrimitiveOps):
    score, value = normal(20, 2, 37) * 9, normal(20, 2, 37, seed=1)
    score[3, 0, 5] = torch.nan
    assert_equal(native.pool_pairs(score, value), reference.pool_pairs(score, value))


@pytest.mark.parametrize("dim", [1, 31, 32, 40, 100])
def test_engram_lookup(native: PrimitiveOps, dim: int):
    codes = (normal(30, dim) * 100).to(torch.float8_e4m3fn)
    scales = torch.randint(0, 255, (30, -(-dim // 32)), dtype=torch.uint8)
    index = torch.randint(-1, 30, (50, 3), generator=torch.Generator().manual_seed(1))
    assert_equal(native.engram_lookup(index, codes, scales), reference.engram_lookup(index, codes, scales))


def test_topk_of_long_rows(native: PrimitiveOps):
    """Longer than what is kept at a time, in ascending, descending, tied and random order."""
    n = 20_000
    ramp = torch.arange(n, dtype=F32)
    tied = (normal(3, n) * 2).round()
    tied[2, 5000:] = torch.nan
    scores = torch.cat((ramp[None], -ramp[None], tied, torch.zeros(1, n), normal(2, n, seed=1)))
    for k in (1, 33, 2500):
        assert_equal(native.select_topk(scores, k), reference.select_topk(scores, k))
    for block_size, num_blocks in ((7, 100), (128, 16), (1, 40)):
        pick = {"block_size": block_size, "num_blocks": num_blocks}
        visible = torch.full((len(scores),), n)
        blocks = native.select_blocks(scores, visible, **pick)
        assert_equal(blocks, reference.select_blocks(scores, visible, **pick))
        assert_equal(
            native.restrict_to_blocks(scores, blocks, block_size=block_size),
            reference.restrict_to_blocks(scores, blocks, block_size=block_size),
        )


def test_instruction_sets_agree(native: PrimitiveOps):
    """Sums in another order than the reference's are still the same on every instruction set."""
    scalar, gen = cpu_ops(cpu.Context(1, "scalar")), torch.Generator().manual_seed(0)
    streams, q, kv = normal(7, 4, 50), normal(7, 5, 37), normal(40, 37, seed=1)
    mix = (normal(24, 200, seed=2) * 0.2, normal(24, seed=3), torch.tensor([0.5, 0.7, 0.9]))
    index, entries = torch.randint(-1, 40, (7, 21), generator=gen), normal(7, 6, 37, seed=4)
    valid, sink = torch.rand(7, 6, generator=gen) < 0.6, normal(5, seed=5)
    keys, visible, group = normal(1, 40, 37, seed=6), torch.arange(7) * 6, torch.zeros(7, dtype=torch.int64)
    q_weight, k_weight = normal(4, 50, seed=7), normal(4, 50, seed=8)

    def results(ops: PrimitiveOps) -> list[torch.Tensor]:
        pre, post, comb = ops.hc_mix(streams, *mix, sinkhorn_iters=20, eps=1e-6, norm_eps=1e-20)
        return [
            pre, post, comb,
            ops.hc_write(streams, streams[:, 0], post, comb),
            ops.engram_gate(streams, streams.flip(1), streams[:, 1], q_weight, k_weight, eps=1e-20),
            ops.attend_vectors(q, kv, index, entries, valid, sink, scale=0.2, out_dtype=F32),
            ops.index_scores(q, normal(7, 5, seed=9), keys, group, visible, scale=0.1, round_bf16=False),
        ]  # fmt: skip

    for got, want in zip(results(native), results(scalar), strict=True):
        assert_equal(got, want)
