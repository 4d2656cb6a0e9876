"""`linear` against the reference on the same inputs."""

from __future__ import annotations

import pytest
import torch

from deepinfer.ops import reference
from tests.gpu.gemm.products import ROUNDS, assert_product, generator

pytest.importorskip("tilelang")

BF16, F32 = torch.bfloat16, torch.float32
SMALL = [(4096, 256, F32), (128, 256, F32), (64, 128, BF16), (4, 256, BF16), (4096, 32, F32), (1, 288, F32)]
ODD = [(33, 96, F32), (24, 64, BF16)]
FLASH = [(512, 5120, BF16), (512, 5120, F32), (32, 5120, BF16), (128, 512, BF16), (1, 5376, F32)]


def operands(device: torch.device, rows: int, num_out: int, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = generator(device)
    x = torch.randn(rows, dim, generator=rng, device=device).to(torch.bfloat16)
    return x, (torch.randn(num_out, dim, generator=rng, device=device) * 0.05).to(torch.bfloat16)


def check(device: torch.device, rows: int, num_out: int, dim: int, out_dtype: torch.dtype, batch_invariant: bool):
    from deepinfer.ops.cuda.linear import linear

    x, weight = operands(device, rows, num_out, dim)
    want = reference.linear(x, weight, out_dtype)
    assert_product(lambda: linear(batch_invariant, x, weight, out_dtype), want)


@pytest.mark.parametrize("rows", [0, 1, 3, 8, 9, 64, 131])
@pytest.mark.parametrize(("num_out", "dim", "out_dtype"), SMALL + ODD)
def test_small(device: torch.device, rows: int, num_out: int, dim: int, out_dtype: torch.dtype):
    for batch_invariant in (False, True):
        check(device, rows, num_out, dim, out_dtype, batch_invariant)


@pytest.mark.parametrize("rows", [1, 4, 5, 8, 9, 32, 33, 53, 64, 257, 2050])
@pytest.mark.parametrize(("num_out", "dim", "out_dtype"), FLASH)
def test_full_size(device: torch.device, rows: int, num_out: int, dim: int, out_dtype: torch.dtype):
    for _ in range(ROUNDS):
        check(device, rows, num_out, dim, out_dtype, False)


@pytest.mark.parametrize(
    ("rows", "dim"),
    [(1, 5120), (5, 5120), (9, 5120), (64, 5120), (200, 5120), (6, 256), (16, 256), (33, 256), (64, 256)],
)
def test_head(device: torch.device, rows: int, dim: int):
    check(device, rows, 129280, dim, F32, False)


@pytest.mark.parametrize(("num_out", "dim"), [(1, 288), (128, 256), (512, 5120)])
def test_a_row_does_not_depend_on_its_neighbours(device: torch.device, num_out: int, dim: int):
    from deepinfer.ops.cuda.linear import linear

    x, weight = operands(device, 150, num_out, dim)
    together = linear(True, x, weight, F32)
    for row in (0, 1, 63, 64, 149):
        assert torch.equal(linear(True, x[row : row + 1], weight, F32)[0], together[row]), f"row {row} alone"


def test_other_operands_take_the_reference(device: torch.device):
    from deepinfer.ops.cuda.linear import linear

    x, weight = operands(device, 5, 24, 100)
    for left, right in ((x.float(), weight), (x, weight.float()), (x, weight)):  # 32 does not divide 100
        assert torch.equal(linear(False, left, right, F32), reference.linear(left, right, F32))
