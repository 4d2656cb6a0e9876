"""Products with plain, quantized and grouped weights against float64."""

from __future__ import annotations

import pytest
import torch

from deepinfer.core.cache_spec import KVRounding
from deepinfer.ops import Ops, PrimitiveOps, reference
from tests.ops.builders import dense_float64, fp4_weight, fp8_weight, normal
from tests.ops.tolerances import assert_close

ROWS = [0, 1, 15, 16, 17, 50]
F32, BF16 = torch.float32, torch.bfloat16


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("k", "n"), [(64, 48), (33, 5), (1, 1)])
def test_linear(ops: Ops, rows: int, k: int, n: int):
    x, w = normal(rows, k), normal(n, k, seed=1)
    assert_close(ops.linear(x, w, F32), x.double() @ w.double().T, "linear")
    x, w = x.to(BF16), w.to(BF16)
    got = ops.linear(x, w, F32)
    assert_close(got, x.double() @ w.double().T, "linear")
    assert torch.equal(ops.linear(x, w, BF16), got.to(BF16))


def test_linear_wider_than_a_block(ops: Ops):
    x, w = normal(3, 4096), normal(600, 4096, seed=1, dtype=BF16)
    assert_close(ops.linear(x, w, F32), x.double() @ w.double().T, "linear")


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("build", [fp8_weight, fp4_weight])
@pytest.mark.parametrize("quantize", [False, True])
def test_quantized_linear(ops: Ops, rows: int, build, quantize: bool):
    for k, n in ((96, 70), (40, 33)):
        x, w = normal(rows, k), build(n, k)
        values = reference.round_vectors(x, KVRounding.FP8_GROUP32) if quantize else x
        got = ops.quantized_linear(x, w, quantize=quantize, out_dtype=F32)
        assert_close(got, values.double() @ dense_float64(w).T, "linear")
        assert torch.equal(ops.quantized_linear(x, w, quantize=quantize, out_dtype=BF16), got.to(BF16))


def test_quantized_linear_wider_than_a_block(ops: Ops):
    x, w = normal(3, 4096), fp8_weight(600, 4096)
    got = ops.quantized_linear(x, w, quantize=False, out_dtype=F32)
    assert_close(got, x.double() @ dense_float64(w).T, "linear")


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("quantize", [False, True])
def test_grouped_linear(ops: PrimitiveOps, rows: int, quantize: bool):
    x, w = normal(rows, 3, 64), fp8_weight(3 * 32, 64)
    values = reference.round_vectors(x, KVRounding.FP8_GROUP32) if quantize else x
    want = torch.einsum("tgk,grk->tgr", values.double(), dense_float64(w).view(3, 32, 64)).flatten(1)
    got = ops.grouped_linear(x, w, quantize=quantize, out_dtype=F32)
    assert_close(got, want, "linear")
    for group in range(3):  # the same bits as a product of its own
        part = ops.quantized_linear(
            x[:, group], type(w)(w.codes[group * 32 :][:32], w.scales[group : group + 1], w.format),
            quantize=quantize, out_dtype=F32,
        )  # fmt: skip
        assert torch.equal(got[:, group * 32 : group * 32 + 32], part)
