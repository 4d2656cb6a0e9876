"""Q8/32 codes and scales, bit for bit those of the reference."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops.reference import dequantize_fp8_group32
from deepinfer.ops.reference import quantize_fp8_group32 as quantize
from tests.gpu.gemm.products import random_bf16
from tests.gpu.poison import poisoned_memory

pytest.importorskip("tilelang")

WIDTHS = [8, 96, 128, 256, 1280, 5120, 15360]


def assert_same(x: torch.Tensor) -> None:
    from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product, quantize_fp8_group32

    want_codes, want_scales = quantize(x)
    with poisoned_memory():
        codes, scales = quantize_fp8_group32(x)
        values, value_scales = quantize_for_product(x, True)
    assert torch.equal(scales, want_scales) and torch.equal(value_scales, want_scales)
    wrong = codes.view(torch.uint8) != want_codes.view(torch.uint8)
    assert not wrong.any(), f"{int(wrong.sum())} codes differ, first at {wrong.nonzero()[0].tolist()}"
    want = dequantize_fp8_group32(want_codes, want_scales)
    assert torch.equal(values.to(torch.float32), want), f"{int((values != want).sum())} values differ"


@pytest.mark.parametrize("rows", [0, 1, 3, 64, 1000])
@pytest.mark.parametrize("dim", WIDTHS)
def test_random(device: torch.device, rows: int, dim: int):
    for spread in (1.0, 1e-6, 1e6):
        assert_same(random_bf16(device, rows, dim, spread=spread))


def test_every_bf16_value(device: torch.device):
    bits = torch.arange(-(1 << 15), 1 << 15, device=device, dtype=torch.int32).to(torch.int16)
    x = bits.view(torch.bfloat16)
    x = torch.where(x.isfinite(), x, torch.zeros_like(x))
    assert_same(x.view(-1, 128))  # neighbours: one exponent a group
    assert_same(x.view(128, -1).T.contiguous())  # all exponents in a row
    assert_same(torch.zeros_like(x).view(-1, 128))


def test_a_group_with_nan_or_inf_is_all_nan(device: torch.device):
    from tilelang_ops.quantize.quantize_fp8_group32 import quantize_for_product

    x = random_bf16(device, 6, 96)
    x[1, 40], x[2, 0], x[4, 95] = torch.nan, torch.inf, -torch.inf
    values, scales = quantize_for_product(x, True)
    assert torch.equal(scales, quantize(x)[1])
    poisoned = torch.zeros(6, 3, dtype=torch.bool, device=device)
    poisoned[1, 1] = poisoned[2, 0] = poisoned[4, 2] = True
    assert torch.equal(values.isnan(), poisoned.repeat_interleave(32, 1))
