"""Products of many rows that go to the matrix library: which do, what it is given, and how little recoding loses."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
import torch.nn.functional as functional

from deepinfer.core.quantized_weight import QuantizedWeight
from deepinfer.ops import reference
from tests.ops.builders import dense_float64, fp8_weight, normal
from tests.support.wide_operands import wide_rows, wide_weight

pytest.importorskip("tilelang")

from tilelang_ops.gemm import wide_rows as wide_form
from tilelang_ops.gemm.multiply import takes_library
from tilelang_ops.gemm.quantized_linear import quantized_linear
from tilelang_ops.gemm.wide_rows import multiply_wide, takes_wide, wide_specs

# weight, groups, first number of rows: what was measured on an H200 lies on the right side of each
FIRST = [
    (32768, 1280, 1, 257),
    (5120, 8192, 1, 65),
    (1280, 5120, 1, 65),
    (512, 5120, 1, 65),
    (25600, 6144, 1, 129),
    (4096, 1280, 1, 513),
    (8192, 4096, 8, 1025),
    (5120, 15360, 1, 65),
]


@pytest.mark.parametrize(("num_out", "dim", "num_groups", "first"), FIRST)
def test_first_number_of_rows(num_out: int, dim: int, num_groups: int, first: int) -> None:
    takes = [takes_wide(rows, num_out, dim, num_groups, "sm_90a") for rows in (0, 1, first - 1, first, 2048, 8192)]
    assert takes == [False, False, False, True, True, True]
    assert not takes_wide(8192, num_out, dim, num_groups, "sm_100a")
    assert len(wide_specs(num_out, dim, num_groups=num_groups)) == 2


@pytest.mark.parametrize(
    ("num_out", "dim", "num_groups"),
    [(4096, 5152, 1), (4104, 5120, 1), (8192, 4224, 8), (4160 * 8, 4096, 8), (256, 256, 1), (1024, 128, 1)],
    ids=["columns", "outputs", "columns of a group", "outputs of a group", "small", "two steps"],
)
def test_what_it_does_not_take(num_out: int, dim: int, num_groups: int) -> None:
    assert not any(takes_wide(rows, num_out, dim, num_groups, "sm_90a") for rows in (65, 500, 4096))


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_form, "HAS_LIBRARY", False)
    assert not takes_wide(4096, 5120, 8192, 1, "sm_90a")


@pytest.mark.parametrize(
    ("num_out", "dim", "rows", "takes"),
    [
        (129280, 5120, 4, False),  # the row form
        (129280, 5120, 5, True),
        (512, 5120, 5, False),  # the split form
        (512, 5120, 32, False),
        (512, 5120, 33, True),
        (32, 5120, 8, False),  # small: the row form
        (32, 5120, 9, True),
        (128, 512, 9, True),
        (1, 5376, 4096, False),
    ],
)
def test_unquantized(num_out: int, dim: int, rows: int, takes: bool) -> None:
    assert takes_library(rows, num_out, dim, "sm_90a") is takes
    assert not takes_library(rows, num_out, dim, "sm_100a")


class Library:
    """torch's calls on a CPU: what they do with scales, and what they demand of operands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.num_calls = 0
        monkeypatch.setattr(functional, "scaled_mm", self.scaled_mm)
        monkeypatch.setattr(torch, "_scaled_mm", self.old_scaled_mm)
        monkeypatch.setattr(wide_form, "quantize_wide", self.quantize_wide)
        monkeypatch.setattr(
            wide_form, "recode_weight", lambda codes, scales: wide_weight(QuantizedWeight(codes, scales, FP8))
        )

    def scaled_mm(self, x: torch.Tensor, w: torch.Tensor, *recipe: Any, output_dtype: torch.dtype) -> torch.Tensor:
        kinds, plain = functional.ScalingType, functional.SwizzleType.NO_SWIZZLE
        x_scales, x_kind, w_scales, w_kind, *swizzles = recipe
        assert (x_kind, w_kind, swizzles) == (kinds.BlockWise1x128, kinds.BlockWise128x128, [plain, plain])
        assert w_scales.stride(1) % 4 == 0
        return self.multiply(x, w, x_scales, w_scales).to(output_dtype)

    def old_scaled_mm(
        self, x: torch.Tensor, w: torch.Tensor, *, scale_a: Any, scale_b: Any, out_dtype: torch.dtype, out: torch.Tensor
    ) -> torch.Tensor:
        assert scale_b.shape[0] == x.shape[1] // 128  # by which the call knows what they are
        return out.copy_(self.multiply(x, w, scale_a, scale_b).to(out_dtype))

    def multiply(self, x: torch.Tensor, w: torch.Tensor, x_scales: Any, w_scales: Any) -> torch.Tensor:
        self.num_calls += 1
        num_rows, dim = x.shape
        assert x.stride(1) == w.stride(0) == x_scales.stride(0) == w_scales.stride(0) == 1
        assert x.stride(0) % 16 == w.stride(1) % 16 == x_scales.stride(1) % 4 == 0
        assert x_scales.shape == (num_rows, dim // 128)
        by_rows = x_scales.double().repeat_interleave(128, 1)
        by_tiles = w_scales[: dim // 128].double().repeat_interleave(128, 0).repeat_interleave(128, 1)[:, : w.shape[1]]
        return (x.double() * by_rows) @ (w.double() * by_tiles)

    @staticmethod
    def quantize_wide(x: torch.Tensor, rotation: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if rotation is not None:
            cos, sin, head_dim = rotation
            x = reference.apply_rope(x.view(len(x), -1, head_dim), cos, sin, inverse=True).flatten(1)
        codes, scales = wide_rows(x)
        padding = -len(x) % 4
        rows = torch.full((padding, x.shape[1]), torch.nan).to(codes.dtype)
        return torch.cat((codes, rows)), functional.pad(scales, (0, padding), value=torch.nan)


FP8 = fp8_weight(32, 32).format


@pytest.mark.parametrize(("num_rows", "num_out", "dim"), [(69, 160, 640), (8, 128, 512)])
def test_recoding_loses_less_than_rounding(monkeypatch: pytest.MonkeyPatch, num_rows: int, num_out: int, dim: int):
    library = Library(monkeypatch)
    x, weight = normal(num_rows, dim, dtype=torch.bfloat16), fp8_weight(num_out, dim)
    x *= torch.exp2(3 * normal(num_rows, dim // 32)).repeat_interleave(32, 1)  # groups of many magnitudes
    out = multiply_wide(x, None, weight.codes, weight.scales, 1)
    codes, scales = reference.quantize_fp8_group32(x)
    exact = reference.dequantize_fp8_group32(codes, scales).double() @ dense_float64(weight).t()
    assert library.num_calls == 1 and out.shape == exact.shape
    assert float((out.double() - exact).norm() / exact.norm()) < 2e-3  # that of rounding to bf16 is 1.7e-3
    values = [codes.double() * wide.double() for codes, wide in recoded_dense(x, weight)]
    assert float((values[0] @ values[1].t() - exact).norm() / exact.norm()) < 2e-4


def recoded_dense(x: torch.Tensor, weight: QuantizedWeight) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Codes and a scale for each, of both operands."""
    (rows, row_scales), (codes, tile_scales) = wide_rows(x), wide_weight(weight)
    by_tile = tile_scales.repeat_interleave(128, 0)[: len(codes)].repeat_interleave(128, 1)[:, : codes.shape[1]]
    return [(rows, row_scales.t().repeat_interleave(128, 1)), (codes, by_tile)]


def test_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call each, on its columns; heads are rotated back first."""
    library = Library(monkeypatch)
    heads, weight = normal(6, 4, 256, dtype=torch.bfloat16), fp8_weight(256, 512)
    cos, sin = normal(6, 8).cos(), normal(6, 8).sin()
    out = multiply_wide(heads.flatten(1), (cos, sin, 256), weight.codes, weight.scales, 2)
    options = {"num_groups": 2, "quantize": True, "out_dtype": torch.bfloat16}
    want = reference.rotate_grouped_linear(heads, cos, sin, weight, **options).double()
    assert library.num_calls == 2
    assert float((out.double() - want).norm() / want.norm()) < 3e-3


def test_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither batch-invariant products nor those with float32 results."""
    library, others = Library(monkeypatch), []
    module = importlib.import_module("tilelang_ops.gemm.quantized_linear")  # not the function of that name
    monkeypatch.setattr(module, "arch_of", lambda device: "sm_90a")
    monkeypatch.setattr(module, "multiply_quantized", lambda *_, **__: others.append(1))
    x, weight = normal(65, 2560, dtype=torch.bfloat16), fp8_weight(128, 2560)
    for dtype, batch_invariant in ((torch.bfloat16, True), (torch.float32, False), (torch.bfloat16, False)):
        out = quantized_linear(x, weight.codes, weight.scales, dtype, batch_invariant=batch_invariant)
    assert out.shape == (65, 128) and library.num_calls == 1 and len(others) == 2
