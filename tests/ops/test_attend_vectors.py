"""Attention over vectors against float64: window, entries and sink."""

from __future__ import annotations

import importlib

import pytest
import torch

from deepinfer.ops import PrimitiveOps, reference
from tests.ops.builders import normal
from tests.ops.tolerances import assert_close


def _model(q, kv, index, entries, valid, sink, scale: float) -> torch.Tensor:
    out = torch.zeros(q.shape, dtype=torch.float64)
    for row in range(q.shape[0]):
        keys = [kv[i].double() for i in index[row].tolist() if i >= 0]
        if entries is not None:
            chosen = torch.ones(entries.shape[1], dtype=torch.bool) if valid is None else valid[row]
            keys += list(entries[row][chosen].double())
        keys = torch.stack(keys)
        logits = torch.cat((q[row].double() @ keys.T * scale, sink.double()[:, None]), dim=1)
        out[row] = torch.softmax(logits, dim=1)[:, :-1] @ keys
    return out


@pytest.mark.parametrize("rows", [0, 1, 30])
@pytest.mark.parametrize("count", [None, 5, 16])
@pytest.mark.parametrize(("heads", "dim", "width"), [(4, 32, 16), (3, 40, 7)])
def test_against_float64(ops: PrimitiveOps, rows: int, count: int | None, heads: int, dim: int, width: int):
    gen = torch.Generator().manual_seed(3)
    kv, sink, q = normal(50, dim, seed=1), normal(heads, seed=2), normal(rows, heads, dim) * 2
    index = torch.randint(-1, 50, (rows, width), generator=gen)
    index[:, 0] = 7
    entries = None if count is None else normal(rows, count, dim, seed=4)
    valid = None if count is None else torch.rand(rows, count, generator=gen) < 0.6
    got = ops.attend_vectors(q, kv, index, entries, valid, sink, scale=0.3, out_dtype=torch.float32)
    assert_close(got, _model(q, kv, index, entries, valid, sink, 0.3), "attend_vectors")
    half = ops.attend_vectors(q, kv, index, entries, valid, sink, scale=0.3, out_dtype=torch.bfloat16)
    assert torch.equal(half, got.to(torch.bfloat16))
    if count:
        everyone = ops.attend_vectors(q, kv, index, entries, None, sink, scale=0.3, out_dtype=torch.float32)
        assert_close(everyone, _model(q, kv, index, entries, None, sink, 0.3), "attend_vectors")


def test_absent_places_may_hold_nan(ops: PrimitiveOps):
    kv, sink, q = normal(10, 32, seed=1), normal(4, seed=2), normal(3, 4, 32)
    kv[0] = torch.nan  # nobody's: index 0 is not used
    index = torch.tensor([[3, -1], [4, 5], [-1, 6]])
    entries, valid = normal(3, 2, 32, seed=3), torch.tensor([[True, False], [False, False], [True, True]])
    entries[~valid] = torch.nan
    got = ops.attend_vectors(q, kv, index, entries, valid, sink, scale=0.3, out_dtype=torch.float32)
    assert_close(got, _model(q, kv, index, entries, valid, sink, 0.3), "attend_vectors")


def test_nan_of_one_row_stays_there(ops: PrimitiveOps):
    kv, sink, q = normal(10, 32, seed=1), normal(4, seed=2), normal(3, 4, 32)
    index = torch.tensor([[3, 1], [4, 5], [7, 6]])
    clean = ops.attend_vectors(q, kv, index, None, None, sink, scale=0.3, out_dtype=torch.float32)
    kv[4] = torch.nan
    got = ops.attend_vectors(q, kv, index, None, None, sink, scale=0.3, out_dtype=torch.float32)
    assert bool(got[1].isnan().all())
    assert torch.equal(got[[0, 2]], clean[[0, 2]])


def test_large_sink_and_large_logits(ops: PrimitiveOps):
    kv, q = normal(4, 32, seed=1), normal(1, 2, 32) * 100
    sink = torch.tensor([1000.0, -1000.0])
    index = torch.tensor([[0, 1, 2, 3]])
    got = ops.attend_vectors(q, kv, index, None, None, sink, scale=1.0, out_dtype=torch.float32)
    assert_close(got, _model(q, kv, index, None, None, sink, 1.0), "attend_vectors")


def test_chunks_give_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    kv, sink, q = normal(50, 32, seed=1), normal(4, seed=2), normal(30, 4, 32)
    index = torch.randint(-1, 50, (30, 8))
    entries = normal(30, 4, 32, seed=4)
    whole = reference.attend_vectors(q, kv, index, entries, None, sink, scale=0.3, out_dtype=torch.float32)
    module = importlib.import_module("deepinfer.ops.reference.attend_vectors")  # not the function of that name
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 7 * 12 * 32)
    parts = reference.attend_vectors(q, kv, index, entries, None, sink, scale=0.3, out_dtype=torch.float32)
    assert torch.equal(parts, whole)
