"""Compound ops against their parts, put together by hand."""

from __future__ import annotations

import importlib

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding, VectorFormat
from deepinfer.core.cache_tensors import VectorCache
from deepinfer.core.device_arrays import device_arrays
from deepinfer.ops import PrimitiveOps, reference
from tests.ops.builders import fp8_weight, normal, paged

F32, BF16 = torch.float32, torch.bfloat16
DTYPES = pytest.mark.parametrize("dtype", [F32, BF16])


@DTYPES
@pytest.mark.parametrize("rows", [0, 5])
def test_expand_embedding(ops: PrimitiveOps, dtype: torch.dtype, rows: int):
    table, ids = normal(9, 24, dtype=BF16), torch.arange(rows) * 2
    streams, pre = ops.expand_embedding(ids, table, 3, dtype)
    assert streams.is_contiguous() and streams.dtype == dtype and streams.shape == (rows, 3, 24)
    assert all(torch.equal(streams[:, i], table[ids].to(dtype)) for i in range(3))
    assert pre.dtype == F32 and pre.tolist() == [[1.0, 0.0, 0.0]] * rows


@pytest.mark.parametrize(("shape", "dtype"), [((4, 6), BF16), ((), F32), ((3,), torch.int64)])
@pytest.mark.parametrize("rows", [[], [0], [5, 1, 1, 6]])
def test_gather_rows_copies(ops: PrimitiveOps, shape: tuple[int, ...], dtype: torch.dtype, rows: list[int]):
    values = (100 * normal(7, *shape)).to(dtype)
    got = ops.gather_rows(values, torch.tensor(rows, dtype=torch.int64))
    want = torch.stack([values[row] for row in rows]) if rows else values[:0]
    assert got.dtype == dtype and torch.equal(got, want)
    got.zero_()
    assert values.any()


@DTYPES
def test_hc_read_norm_rounds_between(ops: PrimitiveOps, dtype: torch.dtype):
    streams, pre, weight = normal(7, 4, 40, dtype=dtype), normal(7, 4, seed=1), normal(40, seed=2, dtype=BF16)
    got = ops.hc_read_norm(streams, pre, weight, 1e-6, dtype)
    assert torch.equal(got, ops.rms_norm(ops.hc_read(streams, pre, dtype), weight, 1e-6, dtype))


@DTYPES
@pytest.mark.parametrize("rows", [0, 7])
def test_hc_step(ops: PrimitiveOps, dtype: torch.dtype, rows: int):
    streams, pre, weight = normal(rows, 4, 40, dtype=dtype), normal(rows, 4, seed=1), normal(40, seed=2, dtype=BF16)
    out, post, comb = normal(rows, 40, seed=3, dtype=dtype), normal(rows, 4, seed=4), normal(rows, 4, 4, seed=5)
    mixing = (normal(24, 160, seed=6), normal(24, seed=7), normal(3, seed=8))
    options = {"sinkhorn_iters": 5, "eps": 1e-3, "norm_eps": 1e-2}
    for update in (None, (out, post, comb)):
        new = streams if update is None else ops.hc_write(streams, out, post, comb)
        got = ops.hc_step(streams, pre, update, weight, mixing, **options, out_dtype=dtype)
        want = (new, ops.hc_read_norm(new, pre, weight, 1e-2, dtype), *ops.hc_mix(new, *mixing, **options))
        assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(got, want, strict=True))


@DTYPES
@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("rounding", list(KVRounding))
def test_store_vectors(ops: PrimitiveOps, dtype: torch.dtype, normed: bool, rounding: KVRounding):
    layout = VectorFormat(64, rounding, rounding is not KVRounding.NONE)
    x, weight = normal(6, 64, dtype=dtype), normal(64, seed=1) if normed else None
    cos, sin = reference.rope_table(100, 16, None, 6)
    cache = VectorCache(torch.full((4, 3, layout.num_bytes), 99, dtype=torch.uint8), layout)
    units, places = torch.tensor([3, -1, 0, 3, -1, 2]), torch.tensor([0, 1, 2, 1, 0, 0])
    ops.store_vectors(x, weight, cos, sin, cache, units, places, eps=1e-6, act_dtype=dtype)
    rotated = ops.apply_rope(ops.rms_norm(x, weight, 1e-6, dtype) if normed else x, cos, sin)
    want = torch.full_like(cache.data, 99)
    for row in (0, 2, 3, 5):
        want[units[row], places[row]] = ops.encode_vectors(rotated, layout)[row]
    assert torch.equal(cache.data, want)
    ops.store_vectors(x[:0], weight, cos[:0], sin[:0], cache, units[:0], places[:0], eps=1e-6, act_dtype=dtype)
    assert torch.equal(cache.data, want)


@DTYPES
def test_compress_pairs_takes_the_first_from_step_or_state(ops: PrimitiveOps, dtype: torch.dtype):
    new, state = normal(6, 2, 33) * 3, normal(4, 3, 2, 33, seed=1) * 3
    second, carried = torch.tensor([0, 2, 5]), torch.tensor([2 * 3 + 1, -1, 0])
    first = torch.stack((state[2, 1], new[1], state[0, 0]))
    pairs = torch.stack((first, new[second]), dim=1)  # [n, token, (score, value), d]
    want = ops.pool_pairs(pairs[:, :, 0].contiguous(), pairs[:, :, 1].contiguous()).to(dtype)
    assert torch.equal(ops.compress_pairs(new, state, second, carried, dtype), want)
    assert ops.compress_pairs(new[:0], state, second[:0], carried[:0], dtype).shape == (0, 33)


@DTYPES
@pytest.mark.parametrize("quantize", [True, False])
def test_rotate_grouped_linear(ops: PrimitiveOps, dtype: torch.dtype, quantize: bool):
    heads, weight = normal(5, 6, 32, dtype=dtype), fp8_weight(3 * 8, 64)
    cos, sin = reference.rope_table(100, 16, None, 5)
    got = ops.rotate_grouped_linear(heads, cos, sin, weight, num_groups=3, quantize=quantize, out_dtype=dtype)
    rotated = ops.apply_rope(heads, cos, -sin).reshape(5, 3, 64)
    assert torch.equal(got, ops.grouped_linear(rotated, weight, quantize=quantize, out_dtype=dtype))


@DTYPES
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_sparse_attention_reads_stored_bytes(ops: PrimitiveOps, dtype: torch.dtype, rows: int, monkeypatch):
    window_format, layout = (
        VectorFormat(64, KVRounding.FP8_GROUP32, True),
        VectorFormat(64, KVRounding.FP4_GROUP16, True),
    )
    gen = torch.Generator().manual_seed(3)
    q, sink, kv, vectors = (
        normal(rows, 4, 64, dtype=dtype),
        normal(4),
        normal(20, 64, seed=1),
        normal(2, 48, 64, seed=2),
    )
    index, picks = torch.randint(-1, 20, (rows, 7), generator=gen), torch.randint(-1, 40, (rows, 5), generator=gen)
    seq = torch.arange(rows) % 2
    window, entries = ops.encode_vectors(kv, window_format), paged(vectors, layout, 16, seq)
    options = {"scale": 0.3, "out_dtype": dtype}
    near = ops.round_vectors(kv, window_format.rounding)
    far = ops.round_vectors(vectors, layout.rounding)[seq[:, None], picks.clamp(min=0)]
    got = ops.sparse_attention(q, window, index, entries, picks, sink, window_format=window_format, **options)
    assert torch.equal(got, ops.attend_vectors(q, near, index, far, picks >= 0, sink, **options))
    module = importlib.import_module("deepinfer.ops.composed.sparse_attention")  # not the function of that name
    monkeypatch.setattr(module, "ENTRY_BYTES_PER_CHUNK", 2 * 5 * 64 * 4)
    parts = ops.sparse_attention(q, window, index, entries, picks, sink, window_format=window_format, **options)
    assert torch.equal(parts, got)
    alone = ops.sparse_attention(q, window, index, None, None, sink, window_format=window_format, **options)
    assert torch.equal(alone, ops.attend_vectors(q, near, index, None, None, sink, **options))


def test_device_arrays_keep_shapes_and_values():
    arrays = (
        torch.arange(6).view(2, 3).numpy(),
        torch.zeros(0, 2, dtype=torch.int32).numpy(),
        torch.tensor([-1]).numpy(),
    )
    moved = device_arrays(torch.device("cpu"), *arrays)
    assert [x.dtype for x in moved] == [torch.int64] * 3
    assert [x.tolist() for x in moved] == [a.tolist() for a in arrays] and moved[1].shape == (0, 2)
