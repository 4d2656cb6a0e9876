"""Stored weights as dense values."""

from __future__ import annotations

import pytest
import torch

from deepinfer.core.quantized_weight import QuantizedWeight, WeightFormat
from deepinfer.ops.reference import dequantize_weight
from tests.ops.builders import dense_float64, fp4_weight, fp8_weight


@pytest.mark.parametrize("build", [fp8_weight, fp4_weight])
@pytest.mark.parametrize("shape", [(64, 96), (40, 70), (3, 64, 32), (32, 2), (1, 34)])
def test_exact(build, shape: tuple[int, ...]):
    weight = build(*shape)
    assert torch.equal(dequantize_weight(weight).double(), dense_float64(weight))


@pytest.mark.parametrize("build", [fp8_weight, fp4_weight])
@pytest.mark.parametrize("rows", [(0, 32), (32, 70), (64, 70), (32, 32), (0, 70)])
def test_some_rows(build, rows: tuple[int, int]):
    weight = build(70, 96)
    assert torch.equal(dequantize_weight(weight, rows), dequantize_weight(weight)[rows[0] : rows[1]])


def test_one_expert_of_a_stack():
    stack = fp4_weight(3, 64, 32)
    one = QuantizedWeight(stack.codes[1], stack.scales[1], stack.format)
    assert torch.equal(dequantize_weight(one), dequantize_weight(stack)[1])


def test_two_packed_rows_by_hand():
    codes = torch.tensor([[0xA0, 0x21], [0x7F, 0x98]], dtype=torch.uint8)
    weight = QuantizedWeight(codes, torch.full((2, 1), 120, dtype=torch.uint8), WeightFormat.FP4_ROW32)
    want = torch.tensor([[0.0, -1.0, 0.5, 1.0], [-6.0, 6.0, -0.0, -0.5]]) * 2.0**-7
    assert torch.equal(dequantize_weight(weight), want)


def test_extreme_scales():
    codes = torch.full((32, 32), 1.0).to(torch.float8_e4m3fn)
    for byte, value in ((0, 2.0**-127), (1, 2.0**-126), (254, 2.0**127)):
        weight = QuantizedWeight(codes, torch.tensor([[byte]], dtype=torch.uint8), WeightFormat.FP8_BLOCK32)
        assert float(dequantize_weight(weight)[0, 0]) == value
