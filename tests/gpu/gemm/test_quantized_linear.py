"""`quantized_linear` against the reference on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.gemm.products import ROUNDS, assert_product, random_bf16, random_fp8_weight

pytest.importorskip("tilelang")

MINI = [(1024, 128), (128, 256), (256, 256), (1280, 128)]
FEW_OF_LARGE = [(1, 25600, 6144), (6, 25600, 6144), (8, 5120, 15360), (1, 32768, 1280), (8, 32768, 1280)]
SPLIT_OF_LARGE = [(64, 25600, 6144), (31, 5120, 15360), (17, 32768, 1280), (64, 32768, 1280), (9, 5120, 15360)]
FLASH = [(1280, 5120), (512, 5120), (5120, 8192), (4096, 1280)]
ODD = [(32, 32), (96, 160), (40, 64), (208, 224), (512, 2080)]


def check(device: torch.device, rows: int, num_out: int, dim: int, out_dtype: torch.dtype, batch_invariant: bool):
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    x, weight = random_bf16(device, rows, dim), random_fp8_weight(device, num_out, dim)
    want = reference.quantized_linear(x, weight, quantize=True, out_dtype=out_dtype)
    assert_product(lambda: quantized_linear(batch_invariant, x, weight, quantize=True, out_dtype=out_dtype), want)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 8, 9, 63, 64, 65, 130])
@pytest.mark.parametrize(("num_out", "dim"), MINI)
def test_bundled_size(device: torch.device, rows: int, num_out: int, dim: int):
    check(device, rows, num_out, dim, torch.bfloat16, False)


@pytest.mark.parametrize("rows", [0, 1, 3, 7, 8, 9, 33, 64, 65, 200])
@pytest.mark.parametrize(("num_out", "dim"), ODD)
def test_odd_size_and_float32_out(device: torch.device, rows: int, num_out: int, dim: int):
    for batch_invariant in (False, True):
        check(device, rows, num_out, dim, torch.float32, batch_invariant)


@pytest.mark.parametrize("rows", [1, 4, 7, 9, 16, 17, 32, 45, 64, 257])
@pytest.mark.parametrize(("num_out", "dim"), FLASH)
def test_full_size(device: torch.device, rows: int, num_out: int, dim: int):
    for _ in range(ROUNDS):
        check(device, rows, num_out, dim, torch.bfloat16, False)


@pytest.mark.parametrize(
    ("rows", "num_out", "dim"),
    [(2048, 32768, 1280), (300, 25600, 6144), (4100, 512, 5120)] + FEW_OF_LARGE + SPLIT_OF_LARGE,
)
def test_large(device: torch.device, rows: int, num_out: int, dim: int):
    check(device, rows, num_out, dim, torch.bfloat16, False)


@pytest.mark.parametrize(("num_out", "dim"), [(128, 256), (1280, 5120), (5120, 8192)])
def test_a_row_does_not_depend_on_its_neighbours(device: torch.device, num_out: int, dim: int):
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    x, weight = random_bf16(device, 150, dim), random_fp8_weight(device, num_out, dim)

    def run(rows: slice, batch_invariant: bool) -> torch.Tensor:
        return quantized_linear(batch_invariant, x[rows], weight, quantize=True, out_dtype=torch.bfloat16)

    together = run(slice(0, 150), True)
    for row in (0, 1, 63, 64, 149):
        assert torch.equal(run(slice(row, row + 1), True)[0], together[row]), f"row {row} alone"
    few = run(slice(0, 8), False)
    for row in (0, 5, 7):
        assert torch.equal(run(slice(row, row + 1), False)[0], few[row]), f"row {row} alone in the row form"
    assert torch.equal(run(slice(0, 3), False), few[:3])


def test_a_nan_stays_in_its_row(device: torch.device):
    from deepinfer.ops.cuda.quantized_linear import quantized_linear

    for rows in (4, 40):
        x, weight = random_bf16(device, rows, 256), random_fp8_weight(device, 128, 256)
        x[2, 37] = torch.nan
        out = quantized_linear(False, x, weight, quantize=True, out_dtype=torch.bfloat16)
        others = torch.arange(rows, device=device) != 2
        assert out[2].isnan().all() and out[others].isfinite().all()
